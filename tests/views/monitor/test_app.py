"""The application on Textual: real keys, a real server, a terminal that Textual makes up."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.patience import PATIENCE_S
from tests.views.cases import thirty_two_devices
from tests.views.servers import reporting, serving
from ttmem.feeds import Feed, ServerFeed
from ttmem.snapshots import Snapshot
from ttmem.views.monitor.app import MonitorApp
from ttmem.views.monitor.choice import Choice
from ttmem.views.monitor.follower import Follower
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.theme import Depth
from ttmem.views.monitor.watch import Watch
from ttmem.wire.historical import Head, Message

MIB = 1 << 20
WEIGHTS = Head(Message.ALLOC, 0, 64 * MIB, 0, os.getpid(), 0x1000)


class Driven:
    """The application with a pilot at its keys."""

    def __init__(self, app: MonitorApp, monitor: Monitor, pilot: Pilot[int]) -> None:
        self.app, self.monitor, self._pilot = app, monitor, pilot

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def click(self, column: int, line: int) -> None:
        await self._pilot.click(offset=(column, line))

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    @property
    def lines(self) -> list[str]:
        canvas = self.app.screen.children[0]
        return [canvas.render_line(y).text.rstrip() for y in range(self.app.size.height)]

    async def until(self, true: Callable[[str], bool]) -> str:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not true(screen := "\n".join(self.lines)):
            assert asyncio.get_running_loop().time() < end, screen
            await asyncio.sleep(0.01)
        return screen


@asynccontextmanager
async def driven(feed: Feed, width: int = 120, height: int = 40) -> AsyncIterator[Driven]:
    watch = Watch(Choice())
    monitor = Monitor(lambda: feed.name, watch, PAGES, interval=0.1)
    follower = Follower(feed, monitor.question, lambda: monitor.interval)
    app = MonitorApp(monitor, watch, follower, Depth.TRUE)
    follower.start()
    try:
        async with app.run_test(size=(width, height)) as pilot:
            yield Driven(app, monitor, pilot)
    finally:
        follower.stop()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with serving(tmp_path / "s", "--board", "n300"), reporting(tmp_path / "s", WEIGHTS):
        yield tmp_path / "s"


def test_it_shows_every_page_by_its_digit(path: Path) -> None:
    async def story() -> list[str]:
        async with driven(ServerFeed(str(path))) as program:
            await program.until(lambda screen: "64.0 MiB" in screen)
            shown = []
            for digit, page in enumerate(PAGES, start=1):
                await program.press(str(digit))
                await program.until(lambda screen: "reading ..." not in screen)
                shown.append(program.monitor.page.name)
                assert f" {digit} {page.name}" in program.lines[1]
            return shown

    assert asyncio.run(story()) == [page.name for page in PAGES]


def test_it_never_shows_itself_as_a_user_of_the_card(path: Path) -> None:
    feed = ServerFeed(str(path))

    async def story() -> Snapshot:
        async with driven(ServerFeed(str(path))) as program:
            await program.until(lambda screen: "64.0 MiB" in screen)
            return feed.read()

    processes = asyncio.run(story()).processes
    feed.close()
    assert [(process.pid, bool(process.devices)) for process in processes] == [(os.getpid(), True)]


def test_a_window_that_changes_re_flows_down_to_nothing_and_back(path: Path) -> None:
    async def story() -> None:
        async with driven(ServerFeed(str(path))) as program:
            await program.until(lambda screen: "64.0 MiB" in screen)
            await program.resize(20, 5)
            await program.until(lambda screen: "window too small" in screen)
            await program.resize(200, 60)
            await program.until(lambda screen: "64.0 MiB" in screen)
            assert max(len(line) for line in program.lines) > 120

    asyncio.run(story())


def test_clicks_and_the_filter_work(path: Path) -> None:
    async def story() -> None:
        async with driven(ServerFeed(str(path))) as program:
            await program.until(lambda screen: "64.0 MiB" in screen)
            await program.click(program.lines[1].index("Events"), 1)
            await program.until(lambda screen: program.monitor.page.name == "Events")
            await program.press("slash", "A", "l", "space", "enter")
            await program.until(lambda screen: "filter: Al " in screen)
            await program.press("escape", "escape")
            await program.until(lambda screen: program.monitor.page.name == "Overview")

    asyncio.run(story())


def test_q_ends_it(path: Path) -> None:
    async def story() -> int | None:
        async with driven(ServerFeed(str(path))) as program:
            await program.press("q")
            await program.until(lambda screen: not program.app.is_running)
            return program.app.return_value

    assert asyncio.run(story()) is None


class Hanging:
    """A feed that answers once, and then holds its reader until it is let go."""

    name = "a feed that hangs"

    def __init__(self) -> None:
        self.reads = 0
        self.let_go = threading.Event()

    def read(
        self, detail: Iterable[str] = (), *, device: str | None = None, limit: int | None = None
    ) -> Snapshot:
        self.reads += 1
        if self.reads > 1:
            self.let_go.wait(PATIENCE_S)
        return thirty_two_devices()

    def close(self) -> None:
        self.let_go.set()


def test_keys_are_answered_while_the_feed_hangs() -> None:
    feed = Hanging()

    async def story() -> str:
        async with driven(feed) as program:
            await program.until(lambda screen: "32 devices" in screen)
            await program.press("h")
            await program.until(lambda screen: "Keys of every view" in screen)
            await program.press("escape")
            screen = await program.until(lambda screen: "no answer for" in screen)
            feed.let_go.set()
            return screen

    assert "32 devices" in asyncio.run(story())
