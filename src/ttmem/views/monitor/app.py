"""Runs the monitor on a terminal: reads keys and clicks, writes lines."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterable
from typing import Any

from ttmem.views.ink import Line
from ttmem.views.monitor.live_data import Poller
from ttmem.views.monitor.screen import MonitorScreen
from ttmem.views.monitor.terminal import Click, Event, Terminal
from ttmem.views.monitor.theme import Depth, Theme

FIRST_ANSWER = 0.4  # seconds that the first screen waits for the feed
HEARTBEAT = 1.0  # seconds; how often ages are redrawn while the feed is silent


class MonitorApp:
    """As small as possible: everything that can be tested without a terminal is in the monitor."""

    def __init__(
        self, monitor: MonitorScreen, poller: Poller[Any, Any], terminal: Terminal, depth: Depth
    ) -> None:
        self._monitor = monitor
        self._poller = poller
        self._terminal = terminal
        self._themes = {dark: Theme(depth, dark) for dark in (True, False)}
        self._asked: object = None
        self._drawn_at = 0.0

    @property
    def over(self) -> bool:
        """The user has quit, or the terminal is gone."""
        return self._monitor.done or self._terminal.gone

    def start(self) -> None:
        """Draws the first screen, after waiting a moment for the feed."""
        self._poller.wait(FIRST_ANSWER)
        self._poller.notify = self._terminal.wake
        self._monitor.take(self._poller.readings())
        self._draw()

    def turn(self) -> None:
        """Waits for something to happen, and shows the result."""
        left = self._drawn_at + HEARTBEAT - time.monotonic()
        for number, event in enumerate(self._terminal.events(left)):
            if number and not self._monitor.typing:
                self._lines()  # a key acts on the screen that the key before it led to
            self._handle(event)
        if not self.over:
            self._monitor.take(self._poller.readings())
            self._monitor.tick()
            self._draw()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Click):
            self._monitor.click(*event)
        elif event == "ctrl+z":
            self._terminal.suspend()
        else:
            self._monitor.press(event)

    def _draw(self) -> None:
        self._hurry()
        self._terminal.show(self._lines(), self._themes[self._monitor.dark])
        self._drawn_at = time.monotonic()

    def _lines(self) -> list[Line]:
        return self._monitor.screen(*self._terminal.size)

    def _hurry(self) -> None:
        """Sends a new question without waiting for the next refresh."""
        wish = self._monitor.wish()
        if wish != self._asked:
            self._asked = wish
            self._poller.hurry()


def run_session(monitor: MonitorScreen, poller: Poller[Any, Any], depth: Depth) -> int:
    """Runs until the user quits; returns the exit code. Errors are printed at the end."""
    poller.start()
    try:
        with Terminal() as terminal:
            app = MonitorApp(monitor, poller, terminal, depth)
            app.start()
            _calm_collector()
            while not app.over:
                app.turn()
    finally:
        poller.stop()
        _print_errors(monitor.faults)
    return 0


def _print_errors(faults: Iterable[str]) -> None:
    try:
        for fault in faults:
            print(f"ttmem top: {fault}", file=sys.stderr)
    except OSError:
        pass  # the terminal is gone


def _calm_collector() -> None:
    """Modules stay loaded, and the 10,000 objects of a screen are freed without the collector.

    With the default thresholds it runs 14 times per screen: an eighth of the CPU time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
