"""The probe: a native library that is preloaded into stock ttnn, and the region it writes."""

from ttmem.probe.launch import environment, library_path

__all__ = ["environment", "library_path"]
