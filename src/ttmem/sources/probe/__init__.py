"""Regions of the probe: what processes under `ttmem run` did, event by event, and what they hold."""
