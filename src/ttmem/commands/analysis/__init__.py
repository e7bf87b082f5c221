"""Verbs that answer a question about a recording or a live process: `ttmem.analysis` on the command line."""
