"""Answers about snapshots and reports: why an allocation failed, peaks and the sizes that they call for."""
