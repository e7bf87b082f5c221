"""What `ttmem run` prints: failed allocations and kernel loads as they happen, everything else at the end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ttmem.analysis.failures import explain
from ttmem.analysis.leftovers import CUT_SHORT, Check, Ignored
from ttmem.client.tracker import FRAMES, frame_line, headline
from ttmem.clock import now_ns
from ttmem.commands.options import drawn_for
from ttmem.events import EVENT_SIZE, Event, KernelType, Op
from ttmem.events.record import places
from ttmem.probe.layout import Option
from ttmem.probe.report import Origin, ProcessReport
from ttmem.sizes import human, several
from ttmem.sources.probe.cleanup import (
    free_and_total,
    names_taken,
    prune_dead_regions,
    take_unwatched,
)
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import BadRegion, RegionEntry, RegionScan, find_regions
from ttmem.sources.probe.report import ReportReader
from ttmem.sources.probe.ring import RingBatch
from ttmem.sources.shm import clean_command
from ttmem.text import clean
from ttmem.views.analysis.call_sites import SITES_OFF, UNKNOWN_SITE
from ttmem.views.analysis.failures import render_failure
from ttmem.views.dump import render_check
from ttmem.views.names import pids_text
from ttmem.views.summary import PROCESSES, PeakOf, Unwatched, render_summary

if TYPE_CHECKING:
    from ttmem.analysis.composition import Holder
    from ttmem.recording import Recording

INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
NAMED = 8  # pids in one line
PLACES = 5  # call sites per process whose failures are explained in full
UNSEEN = (
    "no process of this command opened a device under the probe. If one did, the probe did not reach it: LD_PRELOAD and"
    " the variables of `ttmem run --env` must (not after `env -i`, sudo, or in a container that does not get them)"
)
PER_PLACE = 3  # different failures; some programs retry with smaller sizes until one fits


class RunWatch:
    """Follows the regions of the processes launched by this process."""

    def __init__(self, directory: str, started_ns: int, *, quiet: bool, kernels: bool) -> None:
        """`quiet`: print neither failures nor a summary. `kernels`: print each kernel load."""
        self._quiet = quiet
        self._kernels = kernels
        self._directory = directory
        self._started_ns = started_ns
        self._ours: dict[str, _Followed] = {}  # by path
        self._strangers: set[str] = set()
        self._scan = RegionScan(directory)
        self._unwatched: Unwatched | None = None
        take_unwatched(directory, os.getpid())  # left by an earlier process with this pid
        self._forgotten = prune_dead_regions(directory)

    def begin(self) -> None:
        """Names processes whose leaks were discarded to make space: a leak check would now pass."""
        if self._forgotten and not self._quiet:
            _say(_removed(self._forgotten))

    def look(self) -> None:
        """Finds new regions, and prints what happened since the last call."""
        self._find(self._scan.look().found.values())
        self._print_news()

    def _print_news(self) -> None:
        for followed in self._ours.values():
            with suppress(BadRegion):  # truncated or removed by somebody else; the program goes on
                followed.print_news(failures=not self._quiet)

    def end(self, recorded: Callable[[], Recording] | None = None) -> None:
        """Prints what is left, and the summary, with the holders at each peak from `recorded`."""
        self._find(find_regions(self._directory))  # all at once, however many files there are
        self._print_news()
        self._unwatched = self._find_unwatched()
        if not self._quiet:
            held = _held_at_peaks(self._final, recorded) if recorded is not None else {}
            _draw(partial(render_summary, self._final, self._unwatched, held=held))
        for followed in self._ours.values():
            followed.region.close()

    def passes_leak_check(
        self, recorded: Callable[[], Recording], limits: Ignored, codes: Mapping[int, int]
    ) -> bool:
        """Judges each process that left memory, and prints the outcome; after `end`.

        `codes`: exit codes, by pid, as far as they are known; of forked processes only their parents know them.
        """
        check = Check("growth")
        if self._unwatched is not None:
            pids = self._unwatched.pids
            who = pids_text(pids, NAMED) if pids else "the command"
            check += Check("growth", not_judged=(f"{who} could not be watched",))
        elif not any(report.devices for report in self._final):
            check += Check("growth", not_judged=(UNSEEN,))
        for report in self._final:
            held = sum(one.held * len(one.chips) for one in report.never_freed)
            if held >= max(1, limits.min_bytes):
                code = codes.get(report.pid)
                check += _growth_of(report, held, recorded, limits, code)
        if sys.stderr is not None:
            _draw(partial(render_check, check))
        return not check.failed

    def _find_unwatched(self) -> Unwatched | None:
        """Processes that could not create a region: no space, or no permission."""
        pids = tuple(take_unwatched(self._directory, os.getpid()))
        writable = os.access(self._directory, os.W_OK | os.X_OK)
        if not pids and writable:
            return None
        space = free_and_total(self._directory)
        return Unwatched(
            pids,
            self._directory,
            writable,
            space,
            clean_command(self._directory),
            names_taken(self._directory, pids),
        )

    def _find(self, names: Iterable[RegionEntry]) -> None:
        for name in names:
            if name.uid != os.geteuid() or name.path in self._strangers:
                continue
            if name.path in self._ours:
                if self._ours[name.path].region.key[1] == name.inode:
                    continue
                # After `exec` it is another program, with a name of its own.
                self._ours.pop(name.path).region.close()
            try:
                region = ProbeRegion(name.path)
            except BadRegion:
                continue  # not ready yet, or not a region
            header = region.header()
            ours = header.launcher == os.getpid() and _is_of_this_user(region)
            if ours and header.created_ns >= self._started_ns:
                self._ours[name.path] = _Followed(region, kernels=self._kernels)
            else:
                self._strangers.add(name.path)
                region.close()

    @cached_property
    def _final(self) -> list[ProcessReport]:
        """Read when it is needed: that takes a while if there are many processes."""
        found = []
        for path in self._ours:
            with suppress(BadRegion), closing(ProbeRegion(path)) as region:
                if _is_of_this_user(region):
                    found.append(ReportReader(region).report())
        return found


class _Followed:
    """A region, and what of it has been printed."""

    def __init__(self, region: ProbeRegion, *, kernels: bool) -> None:
        self.region = region
        self._kernels = _KernelLog(region) if kernels else None
        self._alive = True
        self._failures = 0
        self._until_ns = 0  # the time of the last failure
        self._told: dict[Origin, set[object]] = {}

    def print_news(self, *, failures: bool) -> None:
        """May raise BadRegion."""
        region = self.region
        if self._alive and not region.process_alive():
            region.note_death(now_ns())
            self._alive = False
        if self._kernels is not None:
            for text in self._kernels.new_lines():
                _say(text)
        if failures and region.failure_count() > self._failures:
            self._tell_failures()

    def _tell_failures(self) -> None:
        with closing(ProbeRegion(self.region.path)) as region:
            if not _is_of_this_user(region):
                return
            reader = ReportReader(region)
            self._failures = region.failure_count()
            for failure in reader.failures(self._until_ns):
                self._until_ns = failure.time_ns
                why = explain(failure)
                if failure.origin not in self._told and len(self._told) == PLACES:
                    continue
                here = self._told.setdefault(failure.origin, set())
                reason = (why.verdict, why.asked, why.needed, why.short_by)
                cause = (failure.what, failure.kind, *reason)
                if cause not in here and len(here) < PER_PLACE:
                    here.add(cause)
                    _draw(partial(render_failure, region.pid, why))


def _held_at_peaks(
    reports: Sequence[ProcessReport], recorded: Callable[[], Recording]
) -> Mapping[PeakOf, tuple[Holder, ...]]:
    """Who held the memory at each peak; nothing where the recording disagrees with what the probe counted."""
    from ttmem.analysis.composition import peaks_of_process
    from ttmem.analysis.history import History

    found: dict[PeakOf, tuple[Holder, ...]] = {}
    with suppress(Exception), recorded() as recording:  # without it, the summary is still useful
        history = History(recording)
        for report in [report for report in reports if report.devices][:PROCESSES]:
            for (chip, kind), holders in peaks_of_process(history, report.pid).items():
                found[report.pid, chip, kind] = holders
    return found


def _growth_of(
    report: ProcessReport,
    held: int,
    recorded: Callable[[], Recording],
    limits: Ignored,
    code: int | None,
) -> Check:
    from ttmem.analysis.history import History
    from ttmem.analysis.leaks import growth

    if not report.running and not report.in_order and code != 0:
        ended = "was interrupted by SIGINT" if code in INTERRUPTED else CUT_SHORT
        return Check("growth", (f"pid {report.pid} {ended}, and left {human(held)}",))
    try:
        with recorded() as recording:
            return growth(History(recording, pid=report.pid), limits)
    except Exception as problem:  # a full disk, or a file that somebody removed
        why = str(problem) or type(problem).__name__
        return Check("growth", not_judged=(f"pid {report.pid} was not recorded: {why}",))


def _is_of_this_user(region: ProbeRegion) -> bool:
    """Anybody could write this launcher's pid into a file."""
    return region.uid == os.geteuid()


def _removed(pids: list[int]) -> str:
    who = pids_text(pids, NAMED)
    whose = "its region was" if len(pids) == 1 else "their regions were"
    return (
        f"ttmem: {who} ended without freeing everything; {whose} removed to make space, "
        "so `ttmem dump` no longer shows what was left"
    )


def _draw(draw: Callable[..., str]) -> None:
    """On standard error, because standard output belongs to the command."""
    with suppress(OSError):  # the terminal is gone; the command's exit code still counts
        print(drawn_for(sys.stderr, draw), file=sys.stderr, flush=True)


def _say(text: str) -> None:
    _draw(lambda **_: text)


class _KernelLog:
    """Lines for the kernel loads in one region, from its first event on."""

    def __init__(self, region: ProbeRegion) -> None:
        self._region = region
        self._texts: dict[int, str] = {}

    def new_lines(self) -> Iterator[str]:
        """The kernels loaded since the last call, with the frames that created their programs. May raise BadRegion."""
        more = True
        while more:
            batch = self._region.new_events()
            yield from self._loads(batch)
            more = batch.more

    def _loads(self, batch: RingBatch) -> Iterator[str]:
        self._texts |= self._region.new_strings()
        if batch.lost:
            yield (
                f"ttmem: pid {self._region.pid}: {several(batch.lost, 'event')} overwritten before they were read;"
                " kernel loads may be missing here (a larger --events helps)"
            )
        for at in places(batch.events, Op.KERNEL_LOAD):
            yield self._lines(Event.unpack(batch.events, at * EVENT_SIZE))

    def _lines(self, event: Event) -> str:
        name = self._texts.get(event.name)
        return "\n".join(
            [
                headline(
                    event.device,
                    KernelType(event.kind).name.title()
                    if event.kind in list(KernelType)
                    else "N/A",
                    event.size,
                    event.number,
                    event.id,
                    f"PID: {self._region.pid}",
                    *([f"Kernel: {clean(name)}"] if name else []),
                ),
                *self._frames(self._texts.get(event.site)),
            ]
        )

    def _frames(self, site: str | None) -> Iterator[str]:
        """From a site such as '/src/model.py:42 forward', and its callers where whole stacks are recorded."""
        if site is None:
            sought = self._region.header().options & Option.CALL_SITES
            yield f"  {UNKNOWN_SITE if sought else SITES_OFF}"
            return
        for number, frame in enumerate(site.split("\n")[:FRAMES]):
            place, _, function = clean(frame).rpartition(" ")
            yield frame_line(number, function, place)
