"""Removes what dead processes left behind, and can restore it."""
