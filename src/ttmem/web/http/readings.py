"""What pages ask of a recording, and the process that reads files for them.

A file may have been made to take all memory or time: so it is read by a child process, `python -m` this module, with
limits of the kernel. Questions to it are trusted; its answers are text.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from ttmem.errors import BadInput, TtmemError
from ttmem.feeds.recorded_telemetry import with_recorded
from ttmem.feeds.recording_feed import named
from ttmem.own_python import module_command
from ttmem.procfs import user_name
from ttmem.recording import Recording
from ttmem.recording.chunks import FileSource
from ttmem.recording.document import document as info_document
from ttmem.recording.replay import SAMPLED
from ttmem.views.selection import NotThere
from ttmem.web.http.documents import CLOSED, Asked, document, json_text, users_of, visible_to

Work = Callable[[Recording], str]  # makes JSON
_HEAD = struct.Struct("<BQ")  # which answer it is, bytes
_DONE, _BAD_INPUT, _NOT_THERE, _FAILED, _TOO_LARGE = range(5)
_ERRORS: dict[int, type[TtmemError]] = {
    _BAD_INPUT: BadInput,
    _NOT_THERE: NotThere,
    _FAILED: TtmemError,
}
MOST_ANSWER = 64 << 20  # bytes; 100,000 rows take 25 MiB
MOST_MARKERS = 20_000
MOST_RECORDS = 1_000_000  # a longer journal takes seconds: then only samples are used
L1_USED = SAMPLED.index("l1_used")
Sample = tuple[int, tuple[int, ...]]  # a time, and bytes as in SAMPLED


class LimitReached(TtmemError):
    """Reading it exceeds a limit."""


class ReadLimits(NamedTuple):
    """Of the process that reads a recording."""

    memory: int  # bytes of address space
    cpu_s: int  # per question
    wall_s: float  # per question; then it is killed


# -- questions -------------------------------------------------------------------------------------------------------
# `uid`: what this user may see; None: everything.


def span(recording: Recording) -> str:
    info = recording.info()
    when = {"started_ns": info.started_ns, "ended_ns": info.ended_ns}
    return json_text({"bytes": info.bytes, **when, "growing": recording.growing})


def info(recording: Recording, uid: int | None) -> str:
    found, is_hidden = info_document(recording, recording.info()), _hidden(recording, uid)
    if uid not in (None, 0, os.geteuid()):
        found["recorded"] = {}
    for process in found["processes"]:
        if is_hidden(process["pid"]):
            process["command"] = None
    return json_text(found | {"markers": _shown(found["markers"], is_hidden)})


def instant(recording: Recording, at: str) -> str:
    found = recording.instant(at)
    since = found.time_ns - recording.info().started_ns
    position = {"position": found.position, "time_ns": found.time_ns}
    return json_text(position | {"since_start_ns": since})


def snapshot(
    recording: Recording, at: str, asked: Asked, keys: tuple[str, ...], uid: int | None
) -> str:
    """Only `keys`, if there are any."""
    when = recording.instant(at)
    found = named(recording.snapshot(when, asked.question), recording, when)
    if recording.info().telemetry:
        found = with_recorded(found, recording, when)
    if uid is not None:
        found = visible_to(found, uid, users_of(recording.processes))
    whole = document(asked, found)
    return json_text({key: whole.get(key, []) for key in keys} if keys else whole)


def history(recording: Recording, parts: int) -> str:
    return json_text(over_time(recording, parts))


def markers(recording: Recording, uid: int | None) -> str:
    start, found = recording.info().started_ns, recording.markers
    kept = _shown([marker._asdict() for marker in found], _hidden(recording, uid))
    rows = [marker | {"since_start_ns": marker["time_ns"] - start} for marker in kept]
    return json_text({"markers": rows, "left_out": len(found) - len(kept)})


def _shown(
    markers: list[dict[str, Any]], is_hidden: Callable[[int | None], bool]
) -> list[dict[str, Any]]:
    """Of too many, phases are left out first."""
    by_weight = sorted(range(len(markers)), key=lambda at: markers[at]["kind"] == "phase")
    kept = [markers[at] for at in sorted(by_weight[:MOST_MARKERS])]
    return [marker | {"text": CLOSED} if is_hidden(marker["pid"]) else marker for marker in kept]


def _hidden(recording: Recording, uid: int | None) -> Callable[[int | None], bool]:
    """Whether commands and texts of a pid are another user's, or may be."""
    if uid in (None, 0):
        return lambda _: False
    me, users = user_name(uid), users_of(recording.processes)
    return lambda pid: pid is not None and users.get(pid) != me


# -- over time -------------------------------------------------------------------------------------------------------


class _Thinned:
    """The highest and the last states of each part: all of them existed, and no maximum is lost."""

    def __init__(self, start: int, length: int, parts: int) -> None:
        self._start, self._length, self._parts = start, max(1, length), parts
        self._kept: dict[int, list[Sample]] = {}  # by part: most DRAM, most L1, the last

    def add(self, sample: Sample) -> None:
        at = min(self._parts - 1, max(0, (sample[0] - self._start) * self._parts // self._length))
        kept = self._kept.get(at)
        if kept is None:
            self._kept[at] = [sample] * 3
            return
        for number, column in enumerate((0, L1_USED)):
            if sample[1][column] > kept[number][1][column]:
                kept[number] = sample
        kept[2] = sample

    def columns(self) -> dict[str, list[int]]:
        samples = sorted({*chain.from_iterable(self._kept.values())})
        found = {"time_ns": [time_ns for time_ns, _ in samples]}
        for number, name in enumerate(SAMPLED):
            found[name] = [amounts[number] for _, amounts in samples]
        return found


def over_time(recording: Recording, parts: int) -> dict[str, Any]:
    """Columns by device, exact from events; `sampled` names devices with one sample per second instead.

    Those are devices known only from counters, and all devices of a very long recording.
    """
    info = recording.info()
    length = info.ended_ns - info.started_ns
    found: dict[str, _Thinned] = {}

    def add(device: str, time_ns: int, amounts: tuple[int, ...]) -> None:
        if device not in found:
            found[device] = _Thinned(info.started_ns, length, parts)
        found[device].add((time_ns, amounts))

    if info.end - info.first <= MOST_RECORDS:
        for change in _changes(recording):
            add(*change)
    exact = set(found)
    for device, time_ns, amounts in recording.samples():
        if device not in exact:
            add(device, time_ns, amounts)
    return {
        "started_ns": info.started_ns,
        "ended_ns": info.ended_ns,
        "sampled": sorted(set(found) - exact),
        "devices": {device: thinned.columns() for device, thinned in sorted(found.items())},
    }


def _changes(recording: Recording) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Skips devices on which no event allocates: samples may have processes known only from counters."""
    first: dict[str, tuple[str, int, tuple[int, ...]]] = {}
    used: set[str] = set()
    for total in recording.totals():
        held = total.amounts
        row = total.device, total.time_ns, (*held, held.l1_used)
        if total.device not in used:
            if not any(held):
                first.setdefault(total.device, row)
                continue
            used.add(total.device)
            if total.device in first:
                yield first[total.device]
        yield row


# -- the process that asks -------------------------------------------------------------------------------------------


class Child:
    """Reads one recording; one question at a time. `LimitReached` if a limit ended it."""

    def __init__(self, file: str | BinaryIO, name: str, limits: ReadLimits) -> None:
        """A path, or an open file that is called `name`."""
        self._limits = limits
        inherited = () if isinstance(file, str) else (file.fileno(),)
        where = os.path.abspath(file) if isinstance(file, str) else str(file.fileno())
        command = module_command(__name__, where, name)
        self._process = subprocess.Popen(
            [*command, str(limits.memory), str(limits.cpu_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            pass_fds=inherited, bufsize=0,
        )  # fmt: skip

    def ask(self, work: Work) -> str:
        process = self._process
        assert process.stdin is not None
        until = self._until()
        try:
            process.stdin.write(pickle.dumps(work))
            kind, size = _HEAD.unpack(self._read(_HEAD.size, until))
            if size > MOST_ANSWER:
                raise LimitReached("its answer is too long")
            text = self._read(size, until).decode()
        except (OSError, EOFError) as problem:
            self.kill()
            raise LimitReached("reading it took too much time or memory") from problem
        if kind == _TOO_LARGE:
            raise LimitReached("reading it took too much memory")
        if kind != _DONE:
            raise _ERRORS[kind](text)
        return text

    def _until(self) -> float:
        return time.monotonic() + self._limits.wall_s

    def _read(self, size: int, until: float) -> bytes:
        assert self._process.stdout is not None
        out, parts = self._process.stdout.fileno(), []
        ready = select.poll()  # `select` fails with more than 1,024 descriptors
        ready.register(out, select.POLLIN)
        while size:
            left = until - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                raise EOFError("its time is over")
            part = os.read(out, min(size, 1 << 20))
            if not part:
                raise EOFError("it has ended")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    @property
    def memory(self) -> int:
        """Resident bytes; 0 if it has ended."""
        with suppress(OSError, IndexError), open(f"/proc/{self._process.pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
        return 0

    def kill(self) -> None:
        """From any thread; who waits for an answer gets LimitReached."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """While nobody asks."""
        with self._process:
            self.kill()


# -- the process that reads ------------------------------------------------------------------------------------------


def _source(where: str, name: str) -> FileSource:
    """A path, or the number of an open file without a name."""
    if not where.isdigit():
        return FileSource(where)
    source = FileSource(f"/proc/self/fd/{where}")
    source.name = name
    return source


def main() -> None:
    where, name, memory, cpu_s = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    recording: Recording | None = None
    while True:
        try:
            work: Work = pickle.load(questions)
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = int(used.ru_utime + used.ru_stime) + 1 + int(cpu_s)
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
        try:
            if recording is None:
                recording = Recording(_source(where, name))
            else:
                recording.refresh()
            kind, text = _DONE, work(recording).encode()
        except MemoryError:
            answers.write(_HEAD.pack(_TOO_LARGE, 0))
            return
        except Exception as problem:
            kind, text = _said(problem, name)
        answers.write(_HEAD.pack(kind, len(text)))
        answers.write(text)
        answers.flush()


def _said(problem: Exception, name: str) -> tuple[int, bytes]:
    for kind in (_NOT_THERE, _BAD_INPUT, _FAILED):
        if isinstance(problem, _ERRORS[kind]):
            return kind, str(problem).encode("utf-8", "replace")
    what = f"{type(problem).__name__}: {problem}"[:200]
    return _BAD_INPUT, f"{name} cannot be used ({what})".encode("utf-8", "replace")


if __name__ == "__main__":
    main()
