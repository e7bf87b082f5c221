"""The version of this package; `ttmem.__version__` and the build take it from here."""

__version__ = "0.2.0"
