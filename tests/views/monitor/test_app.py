"""The application on a terminal: real keys, a real server, the cells that a person would see."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.views.cases import thirty_two_devices
from tests.views.monitor.terminal_program import Window
from tests.views.servers import reporting, serving
from ttmem.events import Op
from ttmem.feeds import Feed, ServerFeed
from ttmem.snapshots import Question, Snapshot
from ttmem.views.monitor.app import MonitorApp
from ttmem.views.monitor.live_data import Choice, LiveData, Poller
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.terminal import Terminal
from ttmem.views.monitor.theme import Depth
from ttmem.wire.historical import Head

MIB = 1 << 20
WEIGHTS = Head(Op.ALLOC, 0, 64 * MIB, 0, os.getpid(), 0x1000)


class Driven:
    """The application, and a window to type into."""

    def __init__(self, app: MonitorApp, monitor: Monitor, window: Window) -> None:
        self.app, self.monitor, self.window = app, monitor, window

    def press(self, keys: str) -> None:
        self.window.type(keys.encode())

    def click(self, column: int, line: int) -> None:
        self.press(f"\x1b[<0;{column + 1};{line + 1}M\x1b[<0;{column + 1};{line + 1}m")

    def until(self, true: Callable[[str], bool]) -> list[str]:
        end = time.monotonic() + PATIENCE_S
        while not true("\n".join(lines := self.window.read())):
            assert time.monotonic() < end, "\n".join(lines)
            assert not self.app.over
            self.app.turn()
        return lines


@contextmanager
def driven(feed: Feed, width: int = 120, height: int = 40) -> Iterator[Driven]:
    watch = LiveData(Choice())
    monitor = Monitor(lambda: feed.name, watch, PAGES, interval=0.1)
    poller = Poller(
        feed.answer, monitor.question, lambda: monitor.interval, lambda: feed.name, feed.close
    )
    poller.start()
    try:
        with (
            Window(width, height) as window,
            Terminal(window.inside, window.inside) as terminal,
        ):
            app = MonitorApp(monitor, poller, terminal, Depth.TRUE)
            app.start()
            yield Driven(app, monitor, window)
    finally:
        poller.stop()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with serving(tmp_path / "s", "--board", "n300"), reporting(tmp_path / "s", WEIGHTS):
        yield tmp_path / "s"


def test_it_shows_every_page_by_its_digit(path: Path) -> None:
    with driven(ServerFeed(str(path))) as program:
        program.until(lambda screen: "64.0 MiB" in screen)
        for digit, page in enumerate(PAGES, start=1):
            program.press(str(digit))
            program.until(lambda screen, page=page: program.monitor.page is page)  # type: ignore[misc]
            lines = program.until(lambda screen: "reading ..." not in screen)
            assert f" {digit} {page.name}" in lines[1]


def test_it_never_shows_itself_as_a_user_of_the_card(path: Path) -> None:
    feed = ServerFeed(str(path))
    with driven(ServerFeed(str(path))) as program:
        program.until(lambda screen: "64.0 MiB" in screen)
        processes = feed.read().processes
    feed.close()
    assert [(process.pid, bool(process.devices)) for process in processes] == [(os.getpid(), True)]


def test_a_window_that_changes_re_flows_down_to_nothing_and_back(path: Path) -> None:
    with driven(ServerFeed(str(path))) as program:
        program.until(lambda screen: "64.0 MiB" in screen)
        program.window.resize(20, 5)
        program.until(lambda screen: "window too small" in screen)
        program.window.resize(200, 60)
        lines = program.until(lambda screen: "64.0 MiB" in screen)
        assert max(len(line) for line in lines) > 120


def test_clicks_and_the_filter_work(path: Path) -> None:
    with driven(ServerFeed(str(path))) as program:
        lines = program.until(lambda screen: "64.0 MiB" in screen)
        program.click(lines[1].index("Events"), 1)
        program.until(lambda screen: program.monitor.page.name == "Events")
        program.press("/Al \r")
        program.until(lambda screen: "filter: Al " in screen)
        program.press("\x1b\x1b")
        program.until(lambda screen: program.monitor.page.name == "Overview")


def test_a_key_acts_on_what_the_key_before_it_has_brought_up(path: Path) -> None:
    with driven(ServerFeed(str(path))) as program:
        program.until(lambda screen: "64.0 MiB" in screen)
        program.press("\x1b[6~\r")  # to the processes, and into the chosen one
        program.until(lambda screen: f"filter: {os.getpid()}" in screen)
        assert program.monitor.page.name == "Buffers"


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_q_and_ctrl_c_end_it(path: Path, key: str) -> None:
    with driven(ServerFeed(str(path))) as program:
        program.press(key)
        end = time.monotonic() + PATIENCE_S
        while not program.app.over and time.monotonic() < end:
            program.app.turn()
        assert program.monitor.done


def test_a_window_that_is_closed_ends_it(path: Path) -> None:
    with driven(ServerFeed(str(path))) as program:
        program.until(lambda screen: "64.0 MiB" in screen)
        program.window.hang_up()
        end = time.monotonic() + PATIENCE_S
        while not program.app.over and time.monotonic() < end:
            program.app.turn()
        assert program.app.over


class Hanging(Feed):
    """A feed that answers once, and then holds its reader until it is let go."""

    def __init__(self) -> None:
        self.reads = 0
        self.let_go = threading.Event()

    @property
    def name(self) -> str:
        return "a feed that hangs"

    def answer(self, question: Question) -> Snapshot:
        self.reads += 1
        if self.reads > 1:
            self.let_go.wait(PATIENCE_S)
        return thirty_two_devices()

    def close(self) -> None:
        self.let_go.set()


def test_keys_are_answered_while_the_feed_hangs() -> None:
    feed = Hanging()
    with driven(feed) as program:
        program.until(lambda screen: "32 devices" in screen)
        program.press("h")
        program.until(lambda screen: "Keys of every page" in screen)
        program.press("\x1b")
        lines = program.until(lambda screen: "no answer for" in screen)
        feed.let_go.set()
    assert "32 devices" in "\n".join(lines)
