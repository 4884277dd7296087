"""Recorded groups: found, put side by side, explained, and shown; reads records only."""
