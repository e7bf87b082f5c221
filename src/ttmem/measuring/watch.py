"""`with ttmem.watch() as w:` measures what this process allocates inside the block, from its probe region.

The ring of a region holds 131,072 events. A thread reads it twenty times a second, so that a program would have
to allocate two million times a second before anything is lost; if it is, that is known, and no figure is given.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ttmem.analysis.composition import Holder, grouped
from ttmem.analysis.history import L1_USED, MEMORIES
from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.measuring.measured import (
    FIELDS,
    PEAKS,
    Identity,
    Measured,
    Peak,
    holder_rows,
    identities,
)
from ttmem.measuring.own import why_unknown
from ttmem.notebook import Rows, table
from ttmem.procfs import parent_pid
from ttmem.recording.memory import ChunkMemory
from ttmem.sizes import human

if TYPE_CHECKING:
    from ttmem.snapshots import Snapshot
    from ttmem.sources.probe.reader import RegionReader

EVERY_S = 0.05
DEEP = 32  # levels of child processes


class SelfRecorder:
    """Reads what this process allocates, and with `children` what its child processes allocate."""

    def __init__(self, *, children: bool = False) -> None:
        from ttmem.feeds import LocalFeed

        self._pid = os.getpid()
        self._since = now_ns()
        self._children = children
        self._feed = LocalFeed(wanted=self._is_ours)
        self._lock = threading.Lock()  # of the feed
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def _is_ours(self, reader: RegionReader) -> bool:
        region = reader.region
        if region.uid != os.geteuid():
            return False
        if region.pid == self._pid:
            return region.process_alive()
        if not self._children or region.created_ns < self._since:
            return False
        return region.header().launcher == self._pid or _descends(region.pid, self._pid)

    @property
    def is_measuring(self) -> bool:
        return self._thread is not None

    def begin(self, memory: ChunkMemory, about: str) -> None:
        """Starts recording, beginning with what is alive."""
        from ttmem.recording.recorder import described

        with self._lock:
            self._feed.poll()
            self._feed.record(memory, described(about))
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name="ttmem-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            with self._lock, suppress(Exception):  # the watched program continues
                self._feed.poll()

    def snapshot(self) -> Snapshot:
        """What is alive now."""
        with self._lock:
            return self._feed.read(("buffers",))

    def end(self) -> None:
        """Reads the rest, and ends the recording."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            self._feed.poll()
            self._feed.end_recording()

    def close(self) -> None:
        self._feed.close()


def _descends(pid: int, ancestor: int) -> bool:
    for _ in range(DEEP):
        parent = parent_pid(pid)
        if parent is None or parent <= 1:
            return False
        if parent == ancestor:
            return True
        pid = parent
    return False


_recorders: dict[int, SelfRecorder] = {}


def shared() -> SelfRecorder:
    """One per process, because opening a region and reading what is alive takes longer than continuing."""
    pid = os.getpid()
    if pid not in _recorders:
        _recorders.clear()  # belongs to the process that forked this one
        _recorders[pid] = SelfRecorder()
    return _recorders[pid]


RUNNING = "the block has not ended yet"


class Measurement:
    """A block that is being or was measured."""

    def __init__(self) -> None:
        self.memory = ChunkMemory()
        self.result: Measured | None = None
        self.why: str | None = "the block has not begun"  # there is no result
        self._recorder: SelfRecorder | None = None

    def begin(self, recorder: Callable[[], SelfRecorder], about: str) -> None:
        self.why = why_unknown() or RUNNING
        if self.why == RUNNING:
            try:
                self._recorder = recorder()
                self._recorder.begin(self.memory, about)
            except Exception as problem:  # the watched program continues
                self._recorder, self.why = None, f"the probe cannot be read: {problem}"

    def alive(self) -> frozenset[Identity]:
        """What is alive now."""
        return frozenset() if self._recorder is None else identities(self._recorder.snapshot())

    def end(self, *, collect: bool = True) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        if collect:
            gc.collect()  # garbage in cycles is not leaked
        try:
            recorder.end()
            measured = Measured(self.memory)
            self.why = why_unknown() or "; ".join(measured.losses) or None
            self.result = None if self.why else measured
        except Exception as problem:
            self.why = f"the measurement cannot be read: {problem}"


class Watch:
    """A block that is being or was measured; figures are available when it has ended."""

    def __init__(self) -> None:
        self._measurement = Measurement()

    @property
    def why(self) -> str | None:
        """Why figures are None; None: they are known."""
        return self._measurement.why

    def __enter__(self) -> Watch:
        if self._measurement.memory.end or self.why == RUNNING:
            raise BadInput("a watch measures one block; make a new one with ttmem.watch()")
        shared_one = _recorders.get(os.getpid())
        if shared_one is not None and shared_one.is_measuring:
            raise BadInput("this process is already measuring a block; blocks cannot overlap")
        self._measurement.begin(shared, "ttmem.watch")
        return self

    def __exit__(self, *_: object) -> None:
        self._measurement.end()

    @property
    def peak(self) -> Peak:
        """The peak within the block, including what was alive before; on the fullest device."""
        result = self._measurement.result
        return Peak() if result is None else result.peak

    @property
    def devices(self) -> Mapping[str, Peak]:
        """The peaks of each device, by unique id; empty if unknown."""
        result = self._measurement.result
        return {} if result is None else result.devices

    @property
    def leaked(self) -> Rows[Holder] | None:
        """What was allocated in the block and is alive after it, by call site; None: unknown.

        What programs added to the program cache keep is not included.
        """
        result = self._measurement.result
        return None if result is None else result.leaked

    def by(self, *names: str, memory: str = L1_USED) -> Rows[Holder] | None:
        """What was alive at the peak of a memory, by op, site, stack, phase, part or pid; None: unknown.

        `memory`: dram, l1, l1_small, trace, cb or l1_used. Largest first.
        """
        wrong = [name for name in names if name not in FIELDS]
        if wrong or not names:
            told = ", ".join(map(repr, wrong)) or "nothing"
            raise BadInput(f"by() takes names of {', '.join(FIELDS)}, not {told}")
        if memory not in MEMORIES:
            raise BadInput(f"there is no memory {memory!r}; known are {', '.join(MEMORIES)}")
        result = self._measurement.result
        return None if result is None else holder_rows(grouped(result.at_peak(memory), *names))

    def save(self, file: str) -> None:
        """Writes the block as a recording, for `ttmem peak`, `ttmem top` and all other commands that take a file."""
        from ttmem.recording.files import FileSink

        memory = self._measurement.memory
        if not memory.end:
            raise BadInput(f"there is nothing to save: {self.why}")
        sink = FileSink(file)
        sink.append(memory.read(0, memory.end))
        sink.close()

    def __repr__(self) -> str:
        if self.why:
            return f"Watch(N/A: {self.why})"
        leaked, peak = sum(holder.bytes for holder in self.leaked or ()), self.peak
        sizes = f"dram={human(peak.dram)}, l1_used={human(peak.l1_used)}, leaked={human(leaked)}"
        return f"Watch({sizes})"

    def _repr_html_(self) -> str:
        if self.why:
            return table(("peak of", "bytes"), [(name, "N/A") for name in PEAKS], self.why)
        rows = [
            (device, *(human(getattr(peak, name)) for name in PEAKS))
            for device, peak in self.devices.items()
        ]
        held, leaked = self.by("site"), self.leaked
        parts = [table(("peak on device", *PEAKS), rows)]
        if held:
            parts += ["<p>alive at the peak of l1_used</p>", held._repr_html_()]
        if leaked:
            parts += ["<p>leaked</p>", leaked._repr_html_()]
        return "".join(parts)


def watch() -> Watch:
    """Measures what this process allocates in a block: exact peaks, what was alive at them, what was not freed.

    It needs the probe (`ttmem run`, or the pytest plugin), but no server. Without the probe the block runs as usual,
    figures are None, and `why` says why. One block at a time.
    """
    return Watch()
