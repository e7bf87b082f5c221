"""Measures what this process allocates, from inside: for programs, and for the pytest plugin."""
