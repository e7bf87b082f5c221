"""`make pictures`: one picture of each view of `ttmem top`, from the real program on the demo's processes."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from ttmem.commands.demo_processes import DemoProcesses
from ttmem.feeds import ServerFeed
from ttmem.views.monitor.app import MonitorApp
from ttmem.views.monitor.choice import Choice
from ttmem.views.monitor.follower import Follower
from ttmem.views.monitor.monitor import Monitor
from ttmem.views.monitor.pages import PAGES
from ttmem.views.monitor.theme import Depth
from ttmem.views.monitor.watch import Watch

FOLDER = Path(__file__).parent / "pictures"
SIZE = (120, 36)
SECONDS = float(os.environ.get("PICTURE_SECONDS", "75"))  # charts need a past
SETTLE = 1.5  # seconds until a page has its details
_REMOTE_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


async def _take(monitor: Monitor, watch: Watch, follower: Follower) -> None:
    app = MonitorApp(monitor, watch, follower, Depth.TRUE)
    async with app.run_test(size=SIZE) as pilot:
        await asyncio.sleep(SECONDS)
        for digit, page in enumerate(PAGES, start=1):
            await pilot.press(str(digit))
            await asyncio.sleep(SETTLE)
            picture = _REMOTE_FONT.sub("", app.export_screenshot(title=f"ttmem top: {page.name}"))
            file = FOLDER / f"top-{page.name.lower()}.svg"
            file.write_text(picture, encoding="utf-8")
            print(
                f"{file.relative_to(FOLDER.parent.parent)}  {len(picture) // 1024} KiB", flush=True
            )


def main() -> None:
    """Takes them all."""
    FOLDER.mkdir(exist_ok=True)
    os.environ["COLORTERM"] = "truecolor"
    print(f"letting the demo run for {SECONDS:g} s, for a past to show", flush=True)
    with DemoProcesses() as processes:
        watch = Watch(Choice())
        monitor = Monitor(lambda: "server /tmp/tt_allocation_server.sock", watch, PAGES)
        monitor.state.span = 60
        feed = ServerFeed(processes.socket)
        follower = Follower(feed, monitor.question, lambda: monitor.interval)
        follower.start()
        try:
            asyncio.run(_take(monitor, watch, follower))
        finally:
            follower.stop()


if __name__ == "__main__":
    main()
