"""Snapshots as text for people. Pure functions; nothing here reads a terminal, a clock or a socket."""
