"""Snapshots as text: pure functions, except for `terminal`."""
