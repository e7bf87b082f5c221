"""`ttmem demo --top` in a real terminal program: keys go in, the screen that a person sees comes out."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from ttmem.views.monitor.pages import PAGES

TMUX = shutil.which("tmux")
pytestmark = pytest.mark.skipif(TMUX is None, reason="tmux is not installed")


class Tmux:
    """One window of a tmux server of its own."""

    def __init__(self, folder: Path, width: int, height: int, command: str) -> None:
        self._server = [str(TMUX), "-f", "/dev/null", "-S", str(folder / "tmux")]
        size = ["-x", str(width), "-y", str(height)]
        self._call("new-session", "-d", *size, f"{command}; echo ENDED $?; exec cat")

    def _call(self, *arguments: str) -> str:
        done = subprocess.run([*self._server, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def press(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._call("resize-window", "-x", str(width), "-y", str(height))

    @property
    def screen(self) -> str:
        return self._call("capture-pane", "-p")

    def until(self, *words: str) -> str:
        end = time.monotonic() + PATIENCE_S
        while not all(word in (screen := self.screen) for word in words):
            assert time.monotonic() < end, f"waited in vain for {words} in\n{screen}"
            time.sleep(0.1)
        return screen

    def until_gone(self, word: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while word in (screen := self.screen):
            assert time.monotonic() < end, f"{word} is still in\n{screen}"
            time.sleep(0.1)

    def end(self) -> None:
        self._call("kill-server")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Tmux]:
    window = Tmux(tmp_path, 120, 40, f"{sys.executable} -m ttmem demo --top")
    yield window
    window.end()


def test_the_demo_in_the_monitor_from_the_first_picture_to_the_last_word(demo: Tmux) -> None:
    demo.until("HOST 4 devices", "PROCESSES 3")

    for digit, page in enumerate(PAGES, start=1):
        demo.press(str(digit))
        screen = demo.until(f" {digit} {page.name}")
        assert "cannot show this picture" not in screen
    demo.press("1")
    demo.until("PROCESSES 3")

    demo.press("/", "serving")
    demo.until("filter: serving_")
    demo.press("Enter")
    demo.until("(Esc clears)")
    demo.press("Escape")
    demo.until_gone("filter:")

    demo.press("Space")
    demo.until("snapshot of", "space continues")
    demo.press("Space")
    demo.until_gone("space continues")

    demo.resize(80, 24)
    demo.until("HOST 4 devices")
    demo.resize(20, 5)
    demo.until("window too small")
    demo.resize(120, 40)
    demo.until("PROCESSES 3")

    demo.press("q")
    screen = demo.until("3 processes on 4 devices", "ENDED 0")
    assert "1 Overview" not in screen, "the alternate screen is left"
