"""A real browser: Chromium without a window, driven over a pipe by its DevTools protocol."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = "chromium-headless-shell"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def found() -> bool:
    return shutil.which(PROGRAM) is not None


class Browser:
    """One page of its own; answers come in the order of questions, events in between are kept."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        asks, self._write = os.pipe()
        self._read, answers = os.pipe()

        def pipes() -> None:  # the protocol is spoken on descriptors 3 and 4
            # Out of the way first: either may be 3 or 4 already.
            reads = fcntl.fcntl(asks, fcntl.F_DUPFD, 100)
            writes = fcntl.fcntl(answers, fcntl.F_DUPFD, 100)
            os.dup2(reads, 3)
            os.dup2(writes, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self._process = subprocess.Popen(
            [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(asks)
        os.close(answers)
        self._pending = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        pages = self.ask("Target.getTargets")["targetInfos"]
        page = next(entry["targetId"] for entry in pages if entry["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        question: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            question["sessionId"] = self._session
        os.write(self._write, json.dumps(question).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("the browser has gone")
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def scheme(self, name: str) -> None:
        """light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def open(self, page: Path) -> None:
        """Returns when the report has drawn itself."""
        self.ask("Page.navigate", url=page.resolve().as_uri())
        state = self.run(
            """new Promise((resolve) => {
                const look = () => document.documentElement?.dataset.ready
                    ? resolve(document.documentElement.dataset.ready) : setTimeout(look, 10);
                look();
            })"""
        )
        assert state == "true", self.run("document.body.innerText")
        self.settle()

    def settle(self) -> None:
        """Until everything that follows a change of the cursor is drawn."""
        self.run(
            "new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(1)), 150))"
        )

    def run(self, expression: str) -> Any:
        answer = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def problems(self) -> list[str]:
        """What the page complained about, and every address that it asked for besides its own."""
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(about["exceptionDetails"]))
            elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                found.append(about["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                found.append(str(about["args"]))
            elif method == "Network.requestWillBeSent":
                url = about["request"]["url"]
                if not url.startswith(("file:", "data:", "about:", "blob:")):
                    found.append(f"asked for {url}")
        return found

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """mouseMoved, mousePressed, mouseReleased or mouseWheel."""
        button = (
            {"button": "left", "clickCount": 1} if kind in ("mousePressed", "mouseReleased") else {}
        )
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button, **more)

    def key(self, name: str) -> None:
        code = {"key": name} if len(name) > 1 else {"key": name, "text": name}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, **code)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        more: dict[str, Any] = {}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {**size, "x": 0, "y": 0, "scale": 1}}
        data = self.ask("Page.captureScreenshot", format="png", **more)["data"]
        file.write_bytes(base64.b64decode(data))
