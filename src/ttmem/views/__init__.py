"""Snapshots as text for people: pure functions, except `terminal`, which knows the terminal."""
