"""What single keys change in the user's choices: the next unit, span, device, interval."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.views.monitor.keys import INTERVALS
from ttmem.views.monitor.state import SPANS, State, Units


def next_units(state: State) -> None:
    """KiB/MiB/GiB, MiB, bytes, and round again."""
    every = list(Units)
    state.units = every[(every.index(state.units) + 1) % len(every)]


def change_span(state: State, by: int) -> None:
    """More or less of the past in charts."""
    at = SPANS.index(state.span) + by
    state.span = SPANS[max(0, min(at, len(SPANS) - 1))]


def change_device(state: State, ids: Sequence[str], by: int) -> None:
    """The next of these devices; after the last comes the first."""
    if ids:
        at = ids.index(state.device) if state.device in ids else 0
        state.device = ids[(at + by) % len(ids)]


def other_interval(interval: float, by: int) -> float:
    """The next step of INTERVALS from the one that is nearest."""
    nearest = min(range(len(INTERVALS)), key=lambda at: abs(INTERVALS[at] - interval))
    return INTERVALS[max(0, min(nearest + by, len(INTERVALS) - 1))]


def type_filter(state: State, key: str) -> bool:
    """A key typed into the filter; False if that ended the typing (Enter keeps it, Esc clears it)."""
    if key == "escape":
        state.filter = ""
    elif key == "backspace":
        state.filter = state.filter[:-1]
    elif key == "space":
        state.filter += " "
    elif len(key) == 1 and key.isprintable():
        state.filter += key
    return key not in ("escape", "enter")
