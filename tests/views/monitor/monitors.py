"""Monitors without a terminal, on pictures made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone

from ttmem.snapshots import Snapshot
from ttmem.snapshots.types import DETAIL_FIELDS
from ttmem.views.ink import Line, Style, ink
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.state import Drawn, Look, Target
from ttmem.views.monitor.watch import Choice, Question, Reading, Watch


class Rows:
    """A page of numbered rows; Enter and a click go to the page `deeper`."""

    def __init__(self, name: str, details: Sequence[str] = (), deeper: str | None = None) -> None:
        self.name = name
        self.keys = (("x", f"{name.lower()}'s own"),)
        self.pressed: list[str] = []
        self.details = details
        self.help = (("ROW", f"a row of {name}; counted, not measured"),)
        self._deeper = deeper

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
        self.watch = Watch(choice or Choice(), self.clock)
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
