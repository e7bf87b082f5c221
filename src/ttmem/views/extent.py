"""How much of a picture is shown, from all of it to what fits a small window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ttmem.views.device_table import Shape

LEAST_PROCESSES = 3


@dataclass(frozen=True, slots=True)
class Extent:
    """What a picture has."""

    hints: bool = True
    kernels: bool = True
    left_behind: bool = True  # the table; else one line
    devices: Shape = Shape.WHOLE
    by_type: bool = True
    telemetry: bool = True
    processes: int | None = None  # rows; None: all
    airy: bool = True  # empty lines, and all of the title
    commands: bool = True  # may have lines of their own
    whole_notes: bool = True  # else one line for each
    most_devices: int | None = None
    most_notes: int | None = None


ALL = Extent()


def fitting(fits: Callable[[Extent], bool], processes: int, devices: int, notes: int) -> Extent:
    """The largest extent that fits, or the smallest one there is."""
    extent = ALL
    for extent in _smaller():
        if fits(extent):
            return extent
    for name, least, count in (
        ("processes", LEAST_PROCESSES, processes),
        ("airy", None, 0),
        ("commands", None, 0),
        ("whole_notes", None, 0),
        ("most_devices", 1, devices),
        ("most_notes", 1, notes),
    ):
        if least is None:
            extent = _with(extent, name, False)
            if fits(extent):
                return _grown(extent, "processes", processes, fits)
        elif count > least:
            extent = _with(extent, name, least)
            if fits(extent):
                return _grown(extent, name, count, fits)
    return extent


def _smaller() -> Iterator[Extent]:
    """What goes first, in that order."""
    yield (extent := ALL)
    yield (extent := replace(extent, hints=False))
    yield (extent := replace(extent, kernels=False))
    yield (extent := replace(extent, left_behind=False))
    yield (extent := replace(extent, devices=Shape.DENSE))
    yield (extent := replace(extent, devices=Shape.LINE))
    yield (extent := replace(extent, by_type=False))
    yield replace(extent, telemetry=False)


def _grown(extent: Extent, name: str, count: int, fits: Callable[[Extent], bool]) -> Extent:
    """As many rows as fit."""
    fewest = getattr(extent, name)
    if fewest is None:
        return extent
    low, high = fewest, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(_with(extent, name, middle)):
            low = middle
        else:
            high = middle - 1
    return _with(extent, name, low)


def _with(extent: Extent, name: str, value: object) -> Extent:
    return replace(extent, **{name: value})  # type: ignore[arg-type]  # each step names its own type
