"""The regions of one `ttmem run`: failed allocations and kernels are told at once, everything else at the end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress

from ttmem.analysis.process_picture import Origin, ProcessPicture
from ttmem.analysis.region_reading import RegionReading
from ttmem.commands.run_kernels import KernelLog
from ttmem.sources.probe_region import BadRegion, ProbeRegion, RegionName, RegionScan, find_regions
from ttmem.sources.probes import free_and_size, make_room, take_refusals
from ttmem.views.failure_text import render_failure
from ttmem.views.run_summary import Unwatched, render_summary
from ttmem.views.terminal import spelled, wants_color, width

NAMED = 8  # pids in one line
PLACES = 5  # of which failures are told in full, for each process
OF_ONE_PLACE = 3  # different ones: some programs try until it fits


class RunWatch:
    """Looks at the regions of the processes that this process has launched."""

    def __init__(self, directory: str, started_ns: int, *, quiet: bool, kernels: bool) -> None:
        """`quiet`: neither failures nor a summary are told. `kernels`: each load is."""
        self._quiet = quiet
        self._kernels: dict[str, KernelLog] | None = {} if kernels else None
        self._directory = directory
        self._started_ns = started_ns
        self._ours: dict[str, ProbeRegion] = {}
        self._strangers: set[str] = set()
        self._scan = RegionScan(directory)
        self._seen: dict[str, int] = {}  # failures of each region
        self._seen_until: dict[str, int] = {}  # the instant of the last of them
        self._told: dict[str, dict[Origin, set[object]]] = {}
        self._alive: set[str] = set()
        take_refusals(directory, os.getpid())  # of an earlier process of this number
        self._forgotten = make_room(directory)

    def begin(self) -> None:
        """Says which leaks had to go for the room of this run: a check would pass without them."""
        if self._forgotten and not self._quiet:
            say(_removed(self._forgotten))

    def look(self) -> None:
        """Finds new regions, and tells what happened since the last look."""
        self._find(self._scan.look().found.values())
        self._tell()

    def _tell(self) -> None:
        for path, region in self._ours.items():
            with suppress(BadRegion):  # somebody else cut or removed it: the program goes on
                ended = path in self._alive and not region.process_alive()
                if ended:
                    region.note_death(time.time_ns())
                    self._alive.remove(path)
                if self._kernels is not None:
                    for text in self._kernels[path].news():
                        say(text)
                if not self._quiet and region.failure_count() > self._seen.get(path, 0):
                    self._tell_failures(path)

    def end(self) -> None:
        """The rest of what happened, and the summary."""
        self._find(find_regions(self._directory))  # all at once, however many files there are
        self._tell()
        unwatched = self._unwatched()
        if not self._quiet:
            pictures = list(self._pictures())
            say(render_summary(pictures, unwatched, width=width(sys.stderr), color=_color()))
        for region in self._ours.values():
            region.close()

    def _unwatched(self) -> Unwatched | None:
        """Processes that had no room, or a folder in which nobody can make a region."""
        pids = tuple(take_refusals(self._directory, os.getpid()))
        writable = os.access(self._directory, os.W_OK | os.X_OK)
        if not pids and writable:
            return None
        return Unwatched(pids, self._directory, writable, free_and_size(self._directory))

    def _find(self, names: Iterable[RegionName]) -> None:
        for name in names:
            known = name.path in self._ours or name.path in self._strangers
            if known or name.uid != os.geteuid():
                continue
            try:
                region = ProbeRegion(name.path)
            except BadRegion:
                continue  # not ready yet, or none: the next look knows more
            header = region.header()
            ours = header.launcher == os.getpid() and _is_of_this_user(region)
            if ours and header.created_ns >= self._started_ns:
                self._ours[name.path] = region
                self._alive.add(name.path)
                if self._kernels is not None:
                    self._kernels[name.path] = KernelLog(region)
            else:
                self._strangers.add(name.path)
                region.close()

    def _tell_failures(self, path: str) -> None:
        with closing(ProbeRegion(path)) as region:
            if not _is_of_this_user(region):
                return
            reading = RegionReading(region)
            self._seen[path] = region.failure_count()
            told = self._told.setdefault(path, {})
            for time_ns, failure in reading.failures(self._seen_until.get(path, 0)):
                self._seen_until[path] = time_ns
                why = reading.explained(failure)
                if failure.origin not in told and len(told) == PLACES:
                    continue
                here = told.setdefault(failure.origin, set())
                cause = (failure.what, failure.kind, why.verdict, why.asked, why.needed)
                if cause not in here and len(here) < OF_ONE_PLACE:
                    here.add(cause)
                    say(render_failure(region.pid, why, width=width(sys.stderr), color=_color()))

    def _pictures(self) -> Iterator[ProcessPicture]:
        for path in self._ours:
            with suppress(BadRegion), closing(ProbeRegion(path)) as region:
                if _is_of_this_user(region):
                    yield RegionReading(region).picture()


def _is_of_this_user(region: ProbeRegion) -> bool:
    """Anybody can name this launcher in a file."""
    return region.uid == os.geteuid()


def _removed(pids: list[int]) -> str:
    more = f" and {len(pids) - NAMED:,} more" if len(pids) > NAMED else ""
    who = f"pid{'s' * (len(pids) > 1)} {', '.join(map(str, pids[:NAMED]))}{more}"
    whose = "its region was" if len(pids) == 1 else "their regions were"
    return (
        f"ttmem: {who} ended and had not freed all; {whose} removed to make room, "
        "so `ttmem dump` does not tell of it"
    )


def _color() -> bool:
    return wants_color(sys.stderr)


def say(text: str) -> None:
    """To standard error: standard output belongs to the command."""
    with suppress(OSError):  # the terminal is gone; the command's exit code still counts
        print(spelled(text, sys.stderr), file=sys.stderr, flush=True)
