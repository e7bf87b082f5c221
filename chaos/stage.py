"""A server and honest processes around it; what they hold, by their own accounts, and what every view says."""

from __future__ import annotations

import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.probe.watched import build_runtime

from chaos.actor import HISTORICAL_DEVICE, KINDS
from ttmem.api import snapshot
from ttmem.errors import TtmemError
from ttmem.events import Amounts
from ttmem.probe import environment as with_probe
from ttmem.snapshots import Device, Snapshot

CAST = ("client", "client", "client", "historical", "watched", "watched", "counters")
FIELDS = (*KINDS, "cb")
ROOT = Path(__file__).parents[1]
PATIENCE_S = float(os.environ.get("CHAOS_PATIENCE", "120"))  # how long things may take to settle
STABLE_S = 1.2  # a total that is right must still be so after the server's next look at everything
Totals = dict[str, dict[str, int]]  # by unique id of a device, by kind


class Failure(Exception):
    """Something was lost that nobody counted, a total is wrong, or somebody died who should not."""


class Hired:
    """One honest process."""

    def __init__(
        self,
        kind: str,
        seed: str,
        stage: Stage,
        *,
        prefix: Iterable[str] = (),
        variables: dict[str, str] | None = None,
        regions: str | None = None,
    ) -> None:
        self.kind = kind
        self.first = stage.new_device(kind)
        given = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **(variables or {})}
        if kind == "watched":
            given |= {"TTMEM_REGION_DIR": regions or str(stage.shm), "TTMEM_LIVE": "4096"}
            given |= {"TTMEM_EVENTS": "4096", "CHAOS_RUNTIME": str(stage.runtime)}
            given = with_probe(given)
        arguments = [kind, seed, stage.path, str(stage.shm), str(self.first)]
        self.errors = stage.folder / f"{kind}-{self.first}.log"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "chaos.actor", *arguments],
                env=given,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        self._heard = b""
        self.told: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def files(self) -> tuple[str, str]:
        """Its counters and its region, if it is one who has them: the kernel's start time is in the name."""
        ticks = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"tt_device_{self.first}_memory", f"ttmem_{self.pid}_{ticks}"

    def listen(self) -> str | None:
        """Its next line; None if it has ended."""
        assert self.process.stdout is not None
        end = time.monotonic() + PATIENCE_S
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            if not ready:
                raise Failure(f"{self.kind} (pid {self.pid}) says nothing for {PATIENCE_S:.0f} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            if not piece:
                return None
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(word.encode() + b"\n")
        except BrokenPipeError:
            pass  # it has ended; whoever listens to it learns that

    def pause(self) -> bool:
        """It stops working and tells what it holds; False if it has ended."""
        self.say("pause")
        line = self.listen()
        if line is not None:
            self.told = json.loads(line)
        return line is not None

    def end(self) -> int:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        return self.process.wait()


class Stage:
    """Folders, a server, and a cast that is made whole again whenever somebody was killed."""

    def __init__(self, seed: str) -> None:
        # In shared memory, where regions are; open to others, as /dev/shm is.
        self.folder = Path(tempfile.mkdtemp(prefix="ttmem-chaos-", dir="/dev/shm"))
        self.folder.chmod(0o755)
        self.shm = self.folder / "shm"
        self.shm.mkdir()
        self.shm.chmod(0o1777)
        (self.folder / "socket").mkdir()
        self.path = str(self.folder / "socket" / "server.sock")
        self.runtime = build_runtime(self.folder)
        self.cast: list[Hired] = []
        self.server: subprocess.Popen[bytes] | None = None
        self.restarts = 0
        self.pids: list[int] = []
        self.peak = 0.0  # MiB of the server
        self.bytes_lost = 0  # that went with a file that somebody removed
        self.lost_before = 0  # events that were lost before this round, and counted
        self.baseline: tuple[int, dict[int, tuple[int, int, int]]] | None = None
        self._seed = seed
        self._base = 1000 * random.Random(seed).randrange(10**9, 10**10)
        self._made = 10

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.cast:
            worker.end()
        if self.server is not None:
            self.server.kill()
            self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        for pid in self.pids:  # libfaketime leaves these behind for who is killed
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                Path("/dev/shm", name).unlink(missing_ok=True)

    def new_device(self, kind: str) -> int:
        """Clients share the first two of their thousand; nobody else shares."""
        self._made += 1
        return self._base + (0 if kind == "client" else 10**15) + self._made

    # ---- the server

    def start_server(
        self,
        *options: str,
        prefix: Iterable[str] = (),
        variables: dict[str, str] | None = None,
        output: str = os.devnull,
    ) -> None:
        self.restarts += 1
        command = [*prefix, sys.executable, "-m", "ttmem", "serve", "--socket", self.path]
        with open(self.folder / "server.log", "ab") as log, open(output, "ab") as out:
            self.server = subprocess.Popen(
                [*command, "--shm", str(self.shm), *options],
                env={**os.environ, **(variables or {})},
                stdout=out,
                stderr=log,
            )
        self.pids.append(self.server.pid)
        self.wait_until(lambda: "" if self.answers() else "the server does not answer")
        self.peak = max(self.peak, self.memory())

    def answers(self) -> bool:
        """False while there is no answer; a failure if the server has ended by itself."""
        if self.server is not None and self.server.poll() is not None:
            raise Failure(f"the server ended with {self.server.returncode}")
        try:
            self.picture()
        except TtmemError:
            return False
        return True

    def kill_server(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.wait()

    def end_server(self) -> float:
        """Seconds from SIGTERM to the end."""
        assert self.server is not None
        begun = time.monotonic()
        self.server.send_signal(signal.SIGTERM)
        try:
            code = self.server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill_server()
            raise Failure(f"SIGTERM did not end the server in {PATIENCE_S:.0f} s") from None
        if code != 0:
            raise Failure(f"the server ended with {code}")
        return time.monotonic() - begun

    def last_words(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-1500:]

    def memory(self) -> float:
        """MiB that the server has resident."""
        assert self.server is not None
        try:
            words = Path(f"/proc/{self.server.pid}/statm").read_text().split()
        except OSError:
            return 0.0
        return int(words[1]) * resource.getpagesize() / (1 << 20)

    def picture(self) -> Snapshot:
        return snapshot(self.path)

    def look(self, pause_s: float = 0.05) -> None:
        """In the middle of things: if the server answers, its sums must agree with each other."""
        time.sleep(pause_s)
        self.peak = max(self.peak, self.memory())
        try:
            picture = self.picture()
        except TtmemError:
            return
        if wrong := disagreements(picture):
            raise Failure(f"sums by device and by process differ: {wrong}")

    # ---- the cast

    def hire(self, kind: str, **how: Any) -> Hired:
        worker = Hired(kind, f"{self._seed}/{self._made}", self, **how)
        self.pids.append(worker.pid)
        if worker.listen() != "ready":
            raise Failure(f"{kind} did not start: {worker.errors.read_text()[-2000:]}")
        return worker

    def fill(self) -> None:
        """Somebody for each that is missing."""
        missing = Counter(CAST)
        missing.subtract(worker.kind for worker in self.cast)
        self.cast += [self.hire(kind) for kind in missing.elements()]

    def begin(self) -> None:
        """A new round."""
        self.clear()
        self.peak, self.bytes_lost, self.baseline = 0.0, 0, None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Everybody is at work while the block runs; before and after it the totals are right."""
        picture = self.settle()
        self.baseline = (self.restarts, self.dispatches(picture))
        self.lost_before = lost(picture)
        self.go()
        yield

    def abandon(self) -> None:
        """After a failure: nobody of this round goes on."""
        for worker in [*self.cast]:
            self.dismiss(worker)
        if self.server is not None:
            self.kill_server()

    def of(self, *kinds: str) -> list[Hired]:
        return [worker for worker in self.cast if worker.kind in kinds]

    def dismiss(self, worker: Hired) -> None:
        """SIGKILL."""
        worker.end()
        self.cast.remove(worker)

    def clear(self) -> None:
        """Removes what rounds leave behind, and the files of those who are no more."""
        kept = {name for worker in self.cast for name in worker.files}
        for path in self.shm.iterdir():
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def go(self) -> None:
        for worker in self.cast:
            worker.say("go")

    # ---- the oracle

    def settle(self) -> Snapshot:
        """Everybody pauses; every view must say what they hold, and say so still a little later."""
        for worker in [*self.cast]:
            if worker.pause():
                continue
            if worker.kind != "historical" or worker.process.wait(PATIENCE_S) != 0:
                code = worker.process.wait(PATIENCE_S)
                raise Failure(f"{worker.kind} died ({code}): {worker.errors.read_text()[-2000:]}")
            self.dismiss(worker)  # the original client: its connection is gone, and it with it
        self.fill()
        for worker in self.cast:
            if not worker.told and not worker.pause():
                raise Failure(f"{worker.kind} ended: {worker.errors.read_text()[-2000:]}")
        self.wait_until(self.wrong)
        time.sleep(STABLE_S)
        if wrong := self.wrong():
            raise Failure(f"right at first, then wrong: {wrong}")
        return self.picture()

    def wait_until(self, trouble: Any) -> None:
        """Until there is none; a failure says what the last one was."""
        end = time.monotonic() + PATIENCE_S
        while words := trouble():
            if time.monotonic() > end:
                raise Failure(f"after {PATIENCE_S:.0f} s: {words}")
            time.sleep(0.05)

    def wrong(self) -> str:
        """What the server, and who reads the shared memory without one, say otherwise than the oracle."""
        try:
            served, local = self.picture(), snapshot(shm=str(self.shm))
        except TtmemError as problem:
            return str(problem)
        return " | ".join(
            [
                *self._differences("server", served, self.cast),
                *self._differences("shared memory", local, self.of("watched", "counters")),
                *self._uncounted(served),
            ]
        )

    def _differences(self, view: str, picture: Snapshot, cast: list[Hired]) -> list[str]:
        alias = picture.device(HISTORICAL_DEVICE)
        names = {f"#{HISTORICAL_DEVICE}": alias.unique_id if alias else "unknown"}
        wrong = []
        sums: dict[str, Counter[str]] = {}
        shown = {process.pid: process for process in picture.processes}
        for worker in cast:
            held: Totals = worker.told["held"]
            expected = {names.get(device, device): kinds for device, kinds in held.items()}
            process = shown.pop(worker.pid, None)
            actual = {} if process is None else {d: _held(h) for d, h in process.devices.items()}
            for device, kinds in expected.items():
                sums.setdefault(device, Counter()).update(kinds)
            if _clean(expected) != _clean(actual):
                wrong.append(f"{view}: {worker.kind} {worker.pid} holds {expected}, shown {actual}")
        for process in shown.values():
            if any(any(_held(held).values()) for held in process.devices.values()):
                wrong.append(f"{view}: unknown {process.pid} ({process.command}) is shown")
        total = {device.unique_id: _used(device) for device in picture.devices}
        if _clean(total) != _clean({device: dict(kinds) for device, kinds in sums.items()}):
            wrong.append(f"{view}: devices hold {sums}, shown {total}")
        return wrong

    def _uncounted(self, picture: Snapshot) -> list[str]:
        """Events that a client has lost, and the server does not say so."""
        shown = {process.pid: process.dropped_events for process in picture.processes}
        return [
            f"client {worker.pid} dropped {worker.told['dropped']}, the server says {shown.get(worker.pid)}"
            for worker in self.of("client")
            if shown.get(worker.pid, 0) < worker.told["dropped"]
        ]

    def lost_events(self) -> str:
        """Of clients that were there all the time, with one server: each event was seen, or counted as dropped."""
        if self.baseline is None or self.restarts != self.baseline[0]:
            return ""  # the next server cannot know what the last one saw
        before, after = self.baseline[1], self.dispatches(self.picture())
        wrong = []
        for pid in before.keys() & after.keys():
            told, seen, dropped = (b - a for a, b in zip(before[pid], after[pid], strict=True))
            if not seen <= told <= seen + dropped:
                wrong.append(f"client {pid} told {told} dispatches: {seen} seen, {dropped} dropped")
        return " | ".join(wrong)

    def dispatches(self, picture: Snapshot) -> dict[int, tuple[int, int, int]]:
        """By client: dispatches that it has reported, that the server has seen, and events that it dropped."""
        found = {}
        for worker in self.of("client"):
            device = picture.device(str(worker.told["device"]))
            seen = (device.kernels.dispatches if device else None) or 0
            found[worker.pid] = (worker.told["dispatches"], seen, worker.told["dropped"])
        return found


def lost(picture: Snapshot) -> int:
    """Events and records that somebody has lost, as the server tells."""
    return picture.losses.dropped_events + picture.losses.rejected_records


def disagreements(picture: Snapshot) -> list[str]:
    """Devices whose total is not the sum over processes."""
    wrong = []
    for device in picture.devices:
        parts: Counter[str] = Counter()
        for process in picture.processes:
            if device.unique_id in process.devices:
                parts.update(_held(process.devices[device.unique_id]))
        used = _used(device)
        if any(used[kind] != parts[kind] for kind in FIELDS):
            wrong.append(f"{device.unique_id}: {used} by device, {dict(parts)} by process")
    return wrong


def _held(held: Amounts) -> dict[str, int]:
    return {kind: getattr(held, kind) for kind in FIELDS}


def _used(device: Device) -> dict[str, int]:
    memory = device.memory
    return {kind: getattr(memory, kind).held for kind in KINDS} | {"cb": memory.cb.used}


def _clean(totals: Totals) -> Totals:
    """Without zeros."""
    kept = {
        device: {kind: size for kind, size in kinds.items() if size}
        for device, kinds in totals.items()
    }
    return {device: kinds for device, kinds in kept.items() if kinds}
