"""ttmem shows who uses the memory of Tenstorrent accelerators."""
