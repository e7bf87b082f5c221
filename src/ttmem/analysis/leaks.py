"""What grows from iteration to iteration: leaks, caches, warm-up, and what dead processes left.

The rule compares low-water marks: the least that one line of code held during an iteration. What an iteration allocates
and frees again does not raise it, and it does not depend on when one looks. A line leaks if, in the second half of the
run, its low-water mark never falls and rises in most iterations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from ttmem.analysis.history import History, Loss, Window, Windows
from ttmem.analysis.leftovers import Check, CodeLine, Ignored
from ttmem.errors import BadInput, TtmemError
from ttmem.snapshots import Device

MOST_WINDOWS = 200  # if there are more iterations, several make a window
LEAST_STEPS = 4  # from one window to the next; with fewer there is no verdict
RISING = 0.6  # the share of the steps that must rise
MANY_STEPS = 8
PROGRAMS = "programs"
BINARIES = "kernel binaries"  # the label of such buffers in the probe and the model


class LeakVerdict(Enum):
    LEAK = "leak"
    CACHE = "cache growth"
    LEFT = "left by a dead process"
    WARM_UP = "warm-up"
    STEADY = "steady"


class ProcessLine(NamedTuple):
    """A line of code in one process. None: unknown, or none."""

    serial: int  # serial number of the process in this recording; pids are reused
    pid: int | None
    kind: str  # DRAM, L1, L1_SMALL, TRACE; PROGRAMS for a program cache
    op: str | None
    site: str | None


@dataclass(frozen=True, slots=True)
class LeakFinding:
    """What one line of code, or the program cache, did. Bytes are those of one device."""

    verdict: LeakVerdict
    line: ProcessLine
    devices: tuple[str, ...]  # unique ids; several if they did the same
    low_water: tuple[int, ...]  # of each window
    steps: int  # windows that were judged
    rises: int
    per_iteration: float | None  # bytes; None if it does not apply
    until_full: int | None  # iterations; None: unknown, or it does not grow
    confidence: str  # high, medium or low
    evidence: str  # a sentence


@dataclass(frozen=True, slots=True)
class Leaks:
    """The answer about one run."""

    windows: Windows
    per_window: int  # iterations in each
    findings: tuple[LeakFinding, ...]  # leaks first
    steady: int  # lines of code that did not grow

    def of(self, verdict: LeakVerdict) -> list[LeakFinding]:
        return [finding for finding in self.findings if finding.verdict is verdict]


def find_leaks(
    history: History,
    by: str | None = None,
    *,
    min_bytes: int = 0,
    ignore_phases: Sequence[str] = (),
) -> Leaks:
    """`min_bytes`: less growth in the whole run is steady. `ignore_phases`: their allocations are not judged.

    Loss if the recording is incomplete or too short; BadInput if it does not have the iterations that `by` names.
    """
    history.need_everything("verdict")
    windows = history.windows(by)
    chosen, per_window = _merged(windows.windows)
    if len(chosen) <= LEAST_STEPS:
        raise (BadInput if by in ("mark", "phase") else Loss)(_too_few(history, windows))
    levels = _Levels(history, chosen, frozenset(ignore_phases))
    caches = _Caches(history, chosen)
    judge = _Judge(history, windows, chosen, per_window, caches, min_bytes)
    found = [judge.line(line, devices, marks) for line, devices, marks in levels.lines()]
    steady = sum(
        len(finding.devices) > 0 and finding.verdict is LeakVerdict.STEADY for finding in found
    )
    named = [
        *(finding for finding in found if finding.verdict is not LeakVerdict.STEADY),
        *judge.program_caches(),
        *levels.left_behind(),
    ]
    order = list(LeakVerdict)
    named.sort(key=lambda finding: (order.index(finding.verdict), -(finding.per_iteration or 0)))
    return Leaks(windows, per_window, tuple(named), steady)


def growth(history: History, limits: Ignored) -> Check:
    """The leak check of a run that is over, or of one of its processes."""
    if not history.losses and not history.peaks:
        return Check("growth")
    try:
        found = find_leaks(history, min_bytes=limits.min_bytes, ignore_phases=tuple(limits.phases))
    except TtmemError as problem:
        return Check("growth", not_judged=(str(problem),))
    return Check(
        "growth",
        tuple(
            f"{history.name} leaks {CodeLine(line.kind, line.site, line.op)}: {leak.evidence}"
            for leak in found.of(LeakVerdict.LEAK)
            for line in [leak.line]
        ),
    )


def _too_few(history: History, windows: Windows) -> str:
    name, found = history.name, len(windows.windows)
    if windows.by == "mark":
        return (
            f"{name} has {found} iterations between marks, and a verdict needs {LEAST_STEPS + 1}: wrap each one in"
            " `with ttmem.phase('step'):`, or use --by window"
        )
    if windows.by == "phase":
        return (
            f"{name} has no phase that was entered {LEAST_STEPS + 2} times or more: wrap each iteration in"
            " `with ttmem.phase('step'):`, or use --by window"
        )
    return f"too little happened in {name} for a verdict: record a longer run"


def _merged(windows: Sequence[Window]) -> tuple[list[Window], int]:
    """At most MOST_WINDOWS; the last iterations may be left out so that all windows have the same number."""
    each = -(-len(windows) // MOST_WINDOWS)
    if each <= 1:
        return list(windows), 1
    groups = [windows[at : at + each] for at in range(0, len(windows) - each + 1, each)]
    return [group[0]._replace(end=group[-1].end) for group in groups], each


class _Levels:
    """The low-water mark of every line of code on every device in every window."""

    def __init__(
        self, history: History, windows: Sequence[Window], ignored: frozenset[str]
    ) -> None:
        self._windows = windows
        self._marks: dict[tuple[ProcessLine, str], list[int]] = {}
        self._last: dict[int, int] = {}  # the last allocation of each process
        self._first: dict[int, int] = {}
        self._left: dict[tuple[ProcessLine, str], int] = defaultdict(int)
        self._sweep(history, ignored)

    def _sweep(self, history: History, ignored: frozenset[str]) -> None:
        level: dict[tuple[ProcessLine, str], int] = defaultdict(int)
        lowest: dict[tuple[ProcessLine, str], int] = {}
        ends = {(marker.pid, marker.position) for marker in history.markers if marker.kind == "end"}
        at = 0  # the current window
        for change in history.buffers():
            while at < len(self._windows) and change.position >= self._windows[at].end:
                self._close(at, level, lowest)
                at += 1
            origin = change.origin
            if origin.phase in ignored:
                continue
            made = (change.kind, origin.op, origin.site)
            key = (ProcessLine(origin.process.serial, origin.process.pid, *made), change.device)
            before = level[key]
            within = at < len(self._windows) and change.position >= self._windows[at].first
            if change.begins:
                serial = origin.process.serial
                self._last[serial] = change.position
                self._first.setdefault(serial, change.position)
                level[key] = before + change.held
                if within:
                    lowest.setdefault(key, before)
            else:
                level[key] = before - change.held
                if within:
                    lowest[key] = min(lowest.get(key, before), level[key])
                if (origin.process.pid, change.position) in ends:
                    self._left[key] += change.held
        while at < len(self._windows):
            self._close(at, level, lowest)
            at += 1

    def _close(
        self,
        at: int,
        level: Mapping[tuple[ProcessLine, str], int],
        lowest: dict[tuple[ProcessLine, str], int],
    ) -> None:
        for key, held in level.items():
            marks = self._marks.setdefault(key, [0] * at)
            marks.append(lowest.get(key, held))
        lowest.clear()

    def lines(self) -> Iterator[tuple[ProcessLine, tuple[str, ...], tuple[int, ...]]]:
        """(line, devices that did the same, low-water marks) for windows in which the process was active."""
        same: dict[tuple[ProcessLine, tuple[int, ...]], list[str]] = defaultdict(list)
        for (line, device), marks in self._marks.items():
            first, last = self._first.get(line.serial), self._last.get(line.serial, -1)
            at_work = tuple(
                mark
                for window, mark in zip(self._windows, marks, strict=True)
                if window.end <= last + 1 and (first is None or window.end > first)
            )
            same[line, at_work].append(device)
        for (line, at_work), devices in same.items():
            yield line, tuple(sorted(devices)), at_work

    def left_behind(self) -> Iterator[LeakFinding]:
        """What processes held when they ended, by line of code."""
        same: dict[tuple[ProcessLine, int], list[str]] = defaultdict(list)
        for (line, device), held in self._left.items():
            same[line, held].append(device)
        for (line, held), devices in same.items():
            yield LeakFinding(
                LeakVerdict.LEFT,
                line,
                tuple(sorted(devices)),
                (held,),
                0,
                0,
                None,
                None,
                "high",
                f"pid {line.pid} ended without freeing it",
            )


class _Caches:
    """Loaded kernels, and bytes of their binaries in DRAM, at the end of every window, by device.

    The number of kernels is counted by events; entries of the program cache are only read ten times a second.
    """

    def __init__(self, history: History, windows: Sequence[Window]) -> None:
        self.kernels: dict[str, list[int]] = defaultdict(list)
        self.binaries: dict[str, list[int]] = defaultdict(list)
        for number, window in enumerate(windows):
            for device in history.at(window.end).devices:
                for table, value in (
                    (self.kernels, device.kernels.count),
                    (self.binaries, device.kernels.dram_binaries),
                ):
                    values = table[device.unique_id]
                    values += [0] * (number - len(values))
                    before = values[-1] if values else 0
                    # Unknown while a kernel is being loaded.
                    values.append(before if value is None else value)


class _Judge:
    def __init__(
        self,
        history: History,
        windows: Windows,
        chosen: Sequence[Window],
        per_window: int,
        caches: _Caches,
        min_bytes: int,
    ) -> None:
        self._history, self._windows, self._chosen = history, windows, chosen
        self._per_window, self._caches, self._min_bytes = per_window, caches, min_bytes
        self._devices = history.at(chosen[-1].end)

    def line(
        self, line: ProcessLine, devices: tuple[str, ...], marks: tuple[int, ...]
    ) -> LeakFinding:
        judged = second_half(marks)
        steps, rises = len(judged) - 1, _rises(judged)
        grown = judged[-1] - judged[0] if judged else 0
        verdict, evidence = LeakVerdict.STEADY, "its low-water mark does not grow"
        if steps >= LEAST_STEPS and is_growth(judged) and grown >= max(1, self._min_bytes):
            cached = self._is_cached(line, devices[0], marks)
            verdict = LeakVerdict.CACHE if cached else LeakVerdict.LEAK
            judged_part = _judged_part(marks)
            evidence = (
                f"its low-water mark rose in {rises} of the {steps} {self._unit} {judged_part},"
                " and never fell"
            )
            if cached:
                evidence += "; it belongs to cached programs"
        elif len(marks) > 1 and judged and marks[0] < judged[0] and grown == 0:
            verdict = LeakVerdict.WARM_UP
            evidence = f"it rose at first, and not in the last {steps} {self._unit}"
        per = (
            grown / steps / self._per_window
            if verdict in (LeakVerdict.LEAK, LeakVerdict.CACHE)
            else None
        )
        return LeakFinding(
            verdict,
            line,
            devices,
            marks,
            steps,
            rises,
            per,
            self._until_full(devices[0], line.kind, per),
            self._confidence(steps, rises),
            evidence,
        )

    @property
    def _unit(self) -> str:
        if self._windows.by == "window":
            return "steps between parts"
        return f"steps of {self._per_window} iterations" if self._per_window > 1 else "iterations"

    def _confidence(self, steps: int, rises: int) -> str:
        """High for many real iterations without an exception."""
        clear = rises in (0, steps)
        if self._windows.repeats and steps >= MANY_STEPS and clear:
            return "high"
        return "medium" if self._windows.repeats or clear else "low"

    def _is_cached(self, line: ProcessLine, device: str, marks: Sequence[int]) -> bool:
        """Kernel binaries always; L1_SMALL, where programs keep tables, if the number of programs grows as well."""
        if (line.op or line.site or "").endswith(BINARIES):
            return True
        kernels = self._caches.kernels.get(device, [])[-len(marks) :]
        return line.kind == "L1_SMALL" and is_growth(second_half(kernels))

    def _until_full(self, device: str, kind: str, per: float | None) -> int | None:
        found = self._devices.device(device)
        if not per or found is None:
            return None
        free = _free(found, kind)
        return None if free is None else int(free // per)

    def program_caches(self) -> Iterator[LeakFinding]:
        """Program caches that grow like a leak; what their programs hold stays until they are cleared."""
        same: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for device, kernels in self._caches.kernels.items():
            if len(second_half(kernels)) > LEAST_STEPS and is_growth(second_half(kernels)):
                same[tuple(kernels)].append(device)
        for numbers, devices in same.items():
            judged = second_half(numbers)
            steps, rises = len(judged) - 1, _rises(judged)
            beside = second_half(self._caches.binaries.get(devices[0], ()))
            grown = (beside[-1] - beside[0]) / steps / self._per_window if beside else None
            text = (
                f"kernels of cached programs: {judged[0]:,}, then {judged[-1]:,}; more in {rises} of the"
                f" {steps} {self._unit} {_judged_part(numbers)}. A new shape or argument makes a new program"
            )
            confidence = self._confidence(steps, rises)
            yield LeakFinding(
                LeakVerdict.CACHE,
                ProcessLine(0, None, PROGRAMS, None, None),
                tuple(sorted(devices)),
                numbers,
                steps,
                rises,
                grown,
                self._until_full(devices[0], "DRAM", grown),
                confidence,
                text,
            )


def second_half(marks: Sequence[int]) -> Sequence[int]:
    """The windows that are judged: the first half may be warm-up. If there are few, all but the first."""
    return marks[len(marks) // 2 :] if len(marks) // 2 > LEAST_STEPS else marks[1:]


def _judged_part(marks: Sequence[int]) -> str:
    return "of the second half" if len(marks) // 2 > LEAST_STEPS else "after the first"


def is_growth(marks: Sequence[int]) -> bool:
    """Never falls, and rises in most steps."""
    steps = len(marks) - 1
    falls = any(after < before for before, after in pairwise(marks))
    return steps > 0 and not falls and _rises(marks) >= RISING * steps


def _rises(marks: Sequence[int]) -> int:
    return sum(after > before for before, after in pairwise(marks))


def _free(device: Device, kind: str) -> int | None:
    free: int | None = getattr(device.memory, kind.lower()).free
    return free
