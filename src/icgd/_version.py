"""The version of the package, read by the build and by every result file."""

__version__ = "0.1.0"
