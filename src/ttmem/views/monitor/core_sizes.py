"""Sizes within one core, which has about 1,500 KiB: all in KiB, so that a reader can add them up."""

from __future__ import annotations

from ttmem.sizes import human
from ttmem.views.monitor.state import Units

_KIB = 1024


def core_size(units: Units, count: int) -> str:
    """'1368.9 KiB', or what the user chose."""
    if units is not Units.BINARY:
        return units.text(count)
    return human(count) if count < _KIB else f"{count / _KIB:.1f} KiB"
