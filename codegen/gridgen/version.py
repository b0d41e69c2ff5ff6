"""The version of grid-gen."""

__version__ = "0.1.0"
