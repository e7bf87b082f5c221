"""The Textual application: passes keys and clicks to the monitor, and its lines to the canvas."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

from textual import events
from textual.app import App, ComposeResult

from ttmem.views.monitor.alternate_screen import AlternateScreen
from ttmem.views.monitor.canvas import Canvas
from ttmem.views.monitor.driver import MonitorDriver
from ttmem.views.monitor.follower import Follower, Question
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.theme import Depth, Theme
from ttmem.views.monitor.watch import Watch

HEARTBEAT = 1.0  # seconds; how often ages are drawn anew while the feed is silent
PATIENCE = 2.0  # seconds for a clean end after a signal


class MonitorApp(App[int]):
    """Thin: everything that can be tested without a terminal is in `Monitor`."""

    ENABLE_COMMAND_PALETTE = False
    INLINE_PADDING = 0
    CSS = "Screen { background: ansi_default; overflow: hidden; }"

    def __init__(
        self,
        monitor: Monitor,
        watch: Watch,
        follower: Follower,
        depth: Depth,
        screen: AlternateScreen | None = None,
    ) -> None:
        super().__init__(driver_class=MonitorDriver, ansi_color=True)
        self._monitor = monitor
        self._watch = watch
        self._follower = follower
        self._terminal = screen
        self._themes = {dark: Theme(depth, dark) for dark in (True, False)}
        self._dark = monitor.dark
        self._canvas = Canvas(self._themes[self._dark])
        self._drawn_at = 0.0
        self._asked: tuple[Question, float] | None = None

    def restore_line(self) -> None:
        """See `AlternateScreen.restore_line`."""
        if self._terminal is not None:
            self._terminal.restore_line()

    def compose(self) -> ComposeResult:
        """One widget."""
        yield self._canvas

    def on_mount(self) -> None:
        """Follows the feed; signals end it as `q` does."""
        loop = asyncio.get_running_loop()
        self._follower.notify = lambda: _call(loop, self._take)
        self.set_interval(HEARTBEAT, self._beat)
        # After Ctrl-Z and `fg` the screen is blank; Textual itself paints only what has changed meanwhile.
        self.app_resume_signal.subscribe(self, lambda _: self._canvas.refresh())
        if threading.current_thread() is threading.main_thread():
            # SIGINT too: before 3.11 it would end whatever step is being run, with a traceback.
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                loop.add_signal_handler(number, self._leave, number)
        self._take()

    def on_resize(self) -> None:
        """Re-flows."""
        self._draw()

    async def on_event(self, event: events.Event) -> None:
        """Keys and the mouse go to the monitor alone: no bindings, no focus, no selection."""
        if isinstance(event, events.Key):
            for name in _names(event):
                self._press(name)
        elif isinstance(event, events.Paste):
            for sign in event.text:
                self._press("space" if sign == " " else sign)
        elif isinstance(event, events.MouseScrollDown):
            self._press("down")
        elif isinstance(event, events.MouseScrollUp):
            self._press("up")
        elif isinstance(event, events.MouseDown):
            self._monitor.click(event.x, event.y)
            self._answer()
        elif not isinstance(event, events.MouseEvent):
            await super().on_event(event)

    def _press(self, key: str) -> None:
        if key == "ctrl+z":
            self.action_suspend_process()
        else:
            self._monitor.press(key)
            self._answer()

    def _answer(self) -> None:
        """What a key or a click has changed."""
        if self._monitor.done:
            self.exit()
        self._hurry()
        self._draw()

    def _take(self) -> None:
        self._watch.take(self._follower.readings())
        self._hurry()
        self._draw()

    def _hurry(self) -> None:
        """Another question is not left waiting for its turn."""
        question = self._monitor.question(), self._monitor.interval
        if question != self._asked:
            self._asked = question
            self._follower.hurry()

    def _beat(self) -> None:
        if time.monotonic() - self._drawn_at >= HEARTBEAT * 0.9:
            self._draw()

    def _draw(self) -> None:
        if self._dark is not self._monitor.dark:
            self._dark = self._monitor.dark
            self._canvas.wear(self._themes[self._dark])
        width, height = self.size
        self._canvas.show(self._monitor.picture(width, height), width)
        self._drawn_at = time.monotonic()

    def _leave(self, number: int) -> None:
        """A clean end; by force if the terminal is gone and Textual waits for it."""
        forced = threading.Timer(PATIENCE, self._leave_at_once, (number,))
        forced.daemon = True
        forced.start()
        self.exit(128 + number)

    def _leave_at_once(self, number: int) -> None:
        if self._terminal is not None:
            self._terminal.give_back()
        os._exit(128 + number)


def _names(event: events.Key) -> list[str]:
    """The sign of a key that has one, else Textual's name of it. Esc and a quick next key arrive as Alt."""
    if event.key.startswith("alt+"):
        return ["escape", event.key.removeprefix("alt+")]
    sign = event.character
    return [sign if sign and sign.isprintable() and sign != " " else event.key]


def _call(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """From the follower's thread; after the end nobody listens."""
    try:
        loop.call_soon_threadsafe(act)
    except RuntimeError:
        pass
