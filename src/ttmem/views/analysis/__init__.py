"""Results of `ttmem.analysis` as text."""
