"""Monitors without a terminal, on pictures made by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timezone
from pathlib import Path

from tests.views.builders import NOW
from ttmem.snapshots import Question, Snapshot
from ttmem.snapshots.types import DETAIL_FIELDS
from ttmem.views.ink import Line, Style, ink, line_columns
from ttmem.views.monitor.live_data import Choice, LiveData, Reading
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.state import Drawn, Look, MonitorState, Page, Series, Target
from ttmem.views.names import in_order


class Rows(Page):
    """A page of numbered rows; Enter and a click go to the page `deeper`."""

    def __init__(self, name: str, details: Sequence[str] = (), deeper: str | None = None) -> None:
        self.name = name
        self.pressed: list[str] = []
        self.details = details
        self.help = (("ROW", f"a row of {name}; counted, not measured"),)
        self._deeper = deeper

    @property
    def keys(self) -> Sequence[tuple[str, str]]:
        return (("x", f"{self.name.lower()}'s own"),)

    def draw(self, look: Look) -> Drawn:
        devices = [device.unique_id for device in look.snapshot.devices]
        listed = (name for name in DETAIL_FIELDS if getattr(look.snapshot, name) is not None)
        known = ", ".join(sorted(listed)) or "nothing"
        lines = [ink(f"{self.name}: {len(devices)} devices, details: {known}", Style.TITLE)]
        lines += [ink(f"row {at} of {look.width} columns") for at in range(look.height - 1)]
        return Drawn(lines, [Target(1, lambda state: self._deeper, 0, 10)])

    def key(self, key: str, look: Look) -> str | None:
        self.pressed.append(key)
        return self._deeper if key == "enter" else None


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A monitor, its watch, its clock, and a feed that is the test itself."""

    def __init__(self, choice: Choice | None = None, ascii_only: bool = False) -> None:
        self.clock = Clock()
        self.watch = LiveData(choice or Choice(), self.clock)
        self.first, self.second = Rows("First", deeper="Second"), Rows("Second", ["buffers"])
        pages = (self.first, self.second)
        self.monitor = Monitor(
            lambda: "server /tmp/x.sock",
            self.watch,
            pages,
            zone=timezone.utc,
            ascii_only=ascii_only,
        )

    def answer(self, snapshot: Snapshot) -> Question:
        """The feed answers the question of this moment; returns it."""
        question = self.monitor.question()
        self.watch.take([Reading(question, self.clock.now, snapshot)])
        return question

    def fail(self, words: str) -> None:
        self.watch.take([Reading(self.monitor.question(), self.clock.now, problem=words)])

    def press(self, *keys: str) -> None:
        for key in keys:
            self.lines()
            self.monitor.press(key)

    def lines(self, width: int = 80, height: int = 24) -> list[str]:
        return [text(line) for line in self.monitor.screen(width, height)]

    def screen(self, width: int = 80, height: int = 24) -> str:
        return "\n".join(self.lines(width, height))


def text(line: Line) -> str:
    return "".join(span.text for span in line).rstrip()


# -- Pages as pictures. TTMEM_UPDATE_PICTURES=1 takes them anew; then look at them


PICTURES = Path(__file__).parent / "pictures"
SIZES = ((80, 20), (120, 36), (200, 56))
PICTURED = (
    "empty_host",
    "one_device",
    "four_devices",
    "thirty_two_devices",
    "sixty_processes",
    "seed_004_on_a_real_n300",
    "unknown_capacities",
    "hostile_strings",
)


def look_at(
    snapshot: Snapshot, width: int = 120, height: int = 36, state: MonitorState | None = None
) -> Look:
    return Look(
        snapshot, {}, MonitorState() if state is None else state, width, height, timezone.utc
    )


def lines(drawn: Drawn) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in drawn.lines]


def draw(page: Page, look: Look, keys: Sequence[str] = ()) -> list[str]:
    """The lines after some keys; no more and no wider than the page."""
    for key in keys:
        page.key(key, look)
    drawn = page.draw(look)
    assert len(drawn.lines) <= look.height
    assert [line for line in drawn.lines if line_columns(line) > look.width] == []
    assert [t for t in drawn.targets if not 0 <= t.line < len(drawn.lines)] == []
    return lines(drawn)


def compare(name: str, picture: Sequence[str]) -> None:
    file = PICTURES / f"{name}.txt"
    if os.environ.get("TTMEM_UPDATE_PICTURES") == "1":
        PICTURES.mkdir(exist_ok=True)
        file.write_text("\n".join(picture) + "\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == "\n".join(picture) + "\n"


# -- Histories for pages: waves that end in what the snapshot says, with a gap in them


SECOND = 1_000_000_000
LENGTH = 400  # seconds
GAP = range(100, 150)  # seconds ago, without samples
PERIOD = 120


def past(snapshot: Snapshot) -> Mapping[str, Series]:
    out = {}
    for device in snapshot.devices:
        memory = device.memory
        ends = {
            "dram": memory.dram.held,
            "l1": memory.l1.held,
            "l1_small": memory.l1_small.held,
            "trace": memory.trace.held,
            "cb": memory.cb.used,
            "l1_used": device.l1_used,
        }
        ago = [seconds for seconds in range(LENGTH - 1, -1, -1) if seconds not in GAP]
        series = {name: [_wave(end, seconds) for seconds in ago] for name, end in ends.items()}
        out[device.unique_id] = {
            "time_ns": [NOW - seconds * SECOND for seconds in ago],
            **series,
        }
    return out


def _wave(end: int, seconds: int) -> int:
    """Between a third of `end` and all of it, in whole numbers only."""
    place = seconds % PERIOD
    down = min(place, PERIOD - place)
    return end - end * down // (PERIOD * 3 // 4)


def look_back(
    snapshot: Snapshot, width: int = 120, height: int = 36, state: MonitorState | None = None
) -> Look:
    """A look with a past."""
    ordered = in_order(snapshot)
    return look_at(ordered, width, height, state)._replace(history=past(ordered))
