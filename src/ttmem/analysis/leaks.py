"""What grows from iteration to iteration: leaks, caches, warm-up, and what dead processes left.

The rule compares low-water marks: the least that one line of code held during an iteration. What an iteration allocates
and frees again does not raise it, and it does not depend on when one looks. A line leaks if, in the second half of the
run, its low-water mark never falls and rises in most iterations, and the program still holds all of it in the end: what
it frees before it closes the device is no leak.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from ttmem.analysis.history import History, Loss, Window, Windows
from ttmem.analysis.leftovers import Check, CodeLine, Ignored
from ttmem.analysis.low_water import (
    LEAST_STEPS,
    LEAST_WINDOWS,
    LowWater,
    LowWaterMarks,
    ProcessLine,
    together,
)
from ttmem.errors import BadInput, TtmemError
from ttmem.sizes import human, several
from ttmem.snapshots import Device

MOST_WINDOWS = 200  # if there are more iterations, several make a window
RISING = 0.6  # the share of the steps that must rise
MANY_STEPS = 8
PROGRAMS = "programs"
BINARIES = "kernel binaries"  # the label of such buffers in the probe and the model
UNMARKED = (
    "the run has neither marks nor a recurring phase: `with ttmem.phase('step'):` around each iteration makes the"
    " verdict more certain, and shows bytes per iteration"
)


class LeakVerdict(Enum):
    LEAK = "leak"
    UNDECIDED = "undecided"  # it grew, but iterations are unknown
    CACHE = "cache growth"
    LEFT = "left by a dead process"
    FREED = "freed in the end"
    WARM_UP = "warm-up"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class LeakFinding:
    """What one line of code, or the program cache, did. Bytes are those of one device."""

    verdict: LeakVerdict
    line: ProcessLine
    devices: tuple[str, ...]  # unique ids; several if they did the same
    low_water: tuple[int, ...]  # of each window
    held: int | None  # in the last window judged, or in the end; None: unknown
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
    not_judged: tuple[int, ...]  # pids that hold memory in the end, and had too few iterations
    set_aside: tuple[str, ...] = ()  # processes whose events are not complete, as sentences

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
    history = history.complete_part("verdict")
    windows = history.windows(by)
    chosen, per_window = _merged(windows.windows)
    if len(chosen) < LEAST_WINDOWS and by in ("mark", "phase"):
        raise BadInput(_too_few(history, windows))
    caches = _Caches(history, chosen)
    idle = caches.without_dispatch() if windows.by == "window" else frozenset()
    levels = LowWaterMarks(history, chosen, frozenset(ignore_phases), idle)
    short = levels.too_short(max(1, min_bytes))
    judged = [level for level in levels.lines() if len(level.marks) >= LEAST_WINDOWS]
    if short and not judged:
        raise Loss(_too_few(history, windows))
    judge = _Judge(history, windows, chosen, per_window, caches, min_bytes)
    found = [judge.line(level) for level in judged]
    steady = sum(finding.verdict is LeakVerdict.STEADY for finding in found)
    named = [
        *(finding for finding in found if finding.verdict is not LeakVerdict.STEADY),
        *judge.program_caches(),
        *map(_left_behind, levels.left()),
    ]
    order = list(LeakVerdict)
    named.sort(key=lambda finding: (order.index(finding.verdict), -(finding.per_iteration or 0)))
    short_pids = tuple(sorted(short.values()))
    return Leaks(windows, per_window, tuple(named), steady, short_pids, history.set_aside)


def _left_behind(found: tuple[tuple[ProcessLine, int], tuple[str, ...]]) -> LeakFinding:
    (line, held), devices = found
    evidence = f"pid {line.pid} ended without freeing it"
    verdict = LeakVerdict.LEFT
    return LeakFinding(verdict, line, devices, (held,), held, 0, 0, None, None, "high", evidence)


def growth(history: History, limits: Ignored) -> Check:
    """The leak check of a run that is over, or of one of its processes, by the rule of `find_leaks`."""
    if not history.losses and not history.peaks:
        return Check("growth")
    try:
        found = find_leaks(history, min_bytes=limits.min_bytes, ignore_phases=tuple(limits.phases))
    except TtmemError as problem:
        return Check("growth", not_judged=(str(problem),))
    short = (f"pid {pid} had too few iterations for a verdict" for pid in found.not_judged)
    return Check(
        "growth",
        tuple(_sentences(history, "leaks", found.of(LeakVerdict.LEAK))),
        (*_sentences(history, "holds", found.of(LeakVerdict.UNDECIDED)), *short, *found.set_aside),
        (UNMARKED,) if found.windows.by == "window" else (),
    )


def _sentences(history: History, verb: str, found: Iterable[LeakFinding]) -> Iterator[str]:
    for one in found:
        line = CodeLine(one.line.kind, one.line.site, one.line.op)
        yield f"{history.name} {verb} {line}: {one.evidence}"


def _too_few(history: History, windows: Windows) -> str:
    name, found = history.name, len(windows.windows)
    helps = "wrap each one in `with ttmem.phase('step'):`, or use --by window"
    if windows.by == "mark":
        return f"{name} has {found} iterations between marks, and a verdict needs {LEAST_WINDOWS}: {helps}"
    if windows.by == "phase" and not found:
        return f"{name} has no phase that was entered {LEAST_WINDOWS + 1} times or more: {helps}"
    if windows.by == "phase":
        return (
            f"{name} has {several(found, 'complete iteration')} ({windows.what}), and a verdict needs"
            f" {LEAST_WINDOWS}: record a longer run"
        )
    return (
        f"{name} repeated too little for a verdict: record a longer run, with `with ttmem.phase('step'):` around"
        " each iteration"
    )


def _merged(windows: Sequence[Window]) -> tuple[list[Window], int]:
    """At most MOST_WINDOWS; the last iterations may be left out so that all windows have the same number."""
    each = -(-len(windows) // MOST_WINDOWS)
    if each <= 1:
        return list(windows), 1
    groups = [windows[at : at + each] for at in range(0, len(windows) - each + 1, each)]
    return [group[0]._replace(end=group[-1].end) for group in groups], each


class _Caches:
    """Loaded kernels, and bytes of their binaries in DRAM, at the end of every window, by device.

    The number of kernels is counted by events; entries of the program cache are only read ten times a second.
    """

    def __init__(self, history: History, windows: Sequence[Window]) -> None:
        self.kernels: dict[str, list[int]] = defaultdict(list)
        self.binaries: dict[str, list[int]] = defaultdict(list)
        starts = history.at(windows[0].first).devices if windows else ()
        self._dispatches = [sum(device.kernels.dispatches or 0 for device in starts)]
        for number, window in enumerate(windows):
            devices = history.at(window.end).devices
            self._dispatches.append(sum(device.kernels.dispatches or 0 for device in devices))
            for device in devices:
                for table, value in (
                    (self.kernels, device.kernels.count),
                    (self.binaries, device.kernels.dram_binaries),
                ):
                    values = table[device.unique_id]
                    values += [0] * (number - len(values))
                    before = values[-1] if values else 0
                    # Unknown while a kernel is being loaded.
                    values.append(before if value is None else value)

    def without_dispatch(self) -> frozenset[int]:
        """The windows, by number, in which no program was dispatched."""
        counts = enumerate(pairwise(self._dispatches))
        return frozenset(number for number, (before, after) in counts if after <= before)


@dataclass
class _Judge:
    history: History
    windows: Windows
    chosen: Sequence[Window]
    per_window: int
    caches: _Caches
    min_bytes: int

    def __post_init__(self) -> None:
        self.devices = self.history.at(
            self.chosen[-1].end if self.chosen else self.history.info.end
        )

    def line(self, level: LowWater) -> LeakFinding:
        line, marks = level.line, level.marks
        judged = second_half(marks)
        steps, rises = len(judged) - 1, _rises(judged)
        least = max(1, self.min_bytes)
        cached = self._is_cached(line, level.devices[0], marks)
        grown, held = judged[-1] - judged[0], judged[-1]
        verdict, evidence = LeakVerdict.STEADY, "its low-water mark does not grow"
        if is_growth(judged) and grown >= least:
            evidence = f"its low-water mark rose in {rises} of the {steps} {self._unit} {_judged_part(marks)}"
            if level.end < held:
                verdict, held = LeakVerdict.FREED, level.end
                evidence += f", and then fell to {human(held)}"
            elif cached:
                verdict = LeakVerdict.CACHE
                evidence += ", and never fell; it belongs to cached programs"
            else:
                verdict = LeakVerdict.LEAK
                evidence += ", and never fell"
        elif not cached and self._may_grow(marks, level.end, least):
            verdict, held = LeakVerdict.UNDECIDED, level.end
            times = several(_rises((*marks, level.end)), "time")
            evidence = (
                f"it rose {times}, and also in the second half, and never fell: if an iteration is longer than a part"
                " of this run, that is a leak"
            )
        elif marks[0] < judged[0] and grown == 0:
            verdict = LeakVerdict.WARM_UP
            evidence = f"it rose at first, and not in the last {steps} {self._unit}"
        per = (
            grown / steps / self.per_window
            if verdict in (LeakVerdict.LEAK, LeakVerdict.CACHE)
            else None
        )
        return LeakFinding(
            verdict,
            line,
            level.devices,
            marks,
            held,
            steps,
            rises,
            per,
            self._until_full(level.devices[0], line.kind, per),
            self._confidence(steps, rises),
            evidence,
        )

    def _may_grow(self, marks: Sequence[int], end: int, least: int) -> bool:
        """Whether it grew again and again, if iterations are unknown: parts may be shorter."""
        late = (*second_half(marks), end)
        falls = any(after < before for before, after in pairwise(late))
        again = _rises((*marks, end)) > 1 and late[-1] - late[0] >= least
        return self.windows.by == "window" and again and not falls

    @property
    def _unit(self) -> str:
        if self.windows.by == "window":
            return "steps between parts"
        return f"steps of {self.per_window} iterations" if self.per_window > 1 else "iterations"

    def _confidence(self, steps: int, rises: int) -> str:
        """High for many real iterations without an exception."""
        clear = rises in (0, steps)
        if self.windows.repeats and steps >= MANY_STEPS and clear:
            return "high"
        return "medium" if self.windows.repeats or clear else "low"

    def _is_cached(self, line: ProcessLine, device: str, marks: Sequence[int]) -> bool:
        """Kernel binaries always; L1_SMALL, where programs keep tables, if the number of programs grows as well."""
        if (line.op or line.site or "").endswith(BINARIES):
            return True
        kernels = self.caches.kernels.get(device, [])[-len(marks) :]
        return line.kind == "L1_SMALL" and is_growth(second_half(kernels))

    def _until_full(self, device: str, kind: str, per: float | None) -> int | None:
        found = self.devices.device(device)
        if not per or found is None:
            return None
        free = _free(found, kind)
        return None if free is None else int(free // per)

    def program_caches(self) -> Iterator[LeakFinding]:
        """Program caches that grow like a leak; what their programs hold stays until they are cleared."""
        same = together((tuple(numbers), one) for one, numbers in self.caches.kernels.items())
        for numbers, devices in same:
            judged = second_half(numbers)
            if len(judged) <= LEAST_STEPS or not is_growth(judged):
                continue
            steps, rises = len(judged) - 1, _rises(judged)
            beside = second_half(self.caches.binaries.get(devices[0], ()))
            grown = (beside[-1] - beside[0]) / steps / self.per_window if beside else None
            text = (
                f"kernels of cached programs: {judged[0]:,}, then {judged[-1]:,}; more in {rises} of the"
                f" {steps} {self._unit} {_judged_part(numbers)}. A new shape or argument makes a new program"
            )
            confidence = self._confidence(steps, rises)
            yield LeakFinding(
                LeakVerdict.CACHE,
                ProcessLine(0, None, PROGRAMS, None, None),
                devices,
                numbers,
                beside[-1] if beside else None,
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
