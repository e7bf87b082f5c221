"""What this process allocates, measured from inside it: for programs that ask, and for the pytest plugin."""
