"""Verbs that make, describe and convert recordings."""
