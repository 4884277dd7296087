"""The library of the workbench: importing it costs nothing and prints nothing."""

__version__ = "0.1.0"
