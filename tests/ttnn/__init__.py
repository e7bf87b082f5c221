"""ttmem beside the real runtime: stock ttnn on mock devices."""
