"""Answers about snapshots and recordings: failed allocations, peaks, leaks, differences, sizes."""
