"""The contract of a run folder: tables, atomic writing, reading, digest. Imports Polars only inside functions."""
