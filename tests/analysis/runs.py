"""Recordings of runs that a test writes down: what was allocated and freed, by which line, in which phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ttmem.events import DeviceDeclaration, Event, Flag, MemoryKind, Notice, Op
from ttmem.hw import DeviceSpec, device_spec
from ttmem.ledger import Books
from ttmem.procfs import ProcessFacts
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described

START = 1_800_000_000_000_000_000
STEP_NS = 1_000_000
CHIPS = ("chip0", "chip1")


def opened(board: str = "p150") -> DeviceSpec:
    """A device with the regions that `ttnn.open_device` makes on demand."""
    return device_spec(board, l1_small_size=32_768, trace_region_size=50_000_000)


class Run:
    """One process on a p150; every call takes a millisecond. `with Run(path) as run:` writes the recording.

    `watched`: by the probe, which reports phases; else it reports to a server itself, and frees nothing unknown.
    """

    def __init__(
        self, path: Path, pid: int = 41, board: str = "p150", *, watched: bool = True
    ) -> None:
        self.now = START
        self.pid = pid
        self._ids = 0
        self._strings: dict[str, int] = {}
        self._board = board
        self._watched = watched
        self._phase = 0
        self.books = Books()
        self.recorder = Recorder(self.books, FileSink(str(path)), described("test"))
        self.process = self.open(pid)

    def open(self, pid: int) -> int:
        """Another process; its index."""
        facts = ProcessFacts(pid, start_time_ns=pid, user="u", command="python model.py")
        process = self.books.open_process(facts, "probe" if self._watched else "socket")
        if self._watched:
            self.books.native.follow_table(process.index)
        for number, chip in enumerate(CHIPS):
            spec = opened(self._board)
            self.books.declare(process, DeviceDeclaration.from_spec(spec, number, unique_id=chip))
        return process.index

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.recorder.tick(self.now)
        self.recorder.close()

    def event(self, event: Event, process: int | None = None) -> None:
        self.now += STEP_NS
        data = event._replace(time=self.now).pack()
        record = self.books.processes[self.process if process is None else process]
        self.books.apply(record, data, 0, len(data), self.now)

    def text(self, text: str | None) -> int:
        if text is None:
            return 0
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            for record in self.books.processes.values():
                self.books.define_string(record, self._strings[text], text)
        return self._strings[text]

    def alloc(
        self,
        size: int,
        site: str | None = "model.py:1 forward",
        *,
        kind: MemoryKind = MemoryKind.DRAM,
        op: str | None = "ttnn.empty",
        reserved: int = 0,
        address: int = 0,
        device: int = 0,
    ) -> int:
        """The id of the new buffer."""
        self._ids += 1
        self.event(
            Event(
                Op.ALLOC,
                kind,
                device=device,
                id=self._ids,
                size=size,
                extra=reserved,
                address=address,
                cores=self._phase,
                name=self.text(op),
                site=self.text(site),
            )
        )
        return self._ids

    def free(self, number: int, device: int = 0) -> None:
        self.event(Event(Op.FREE, device=device, id=number))

    def circular(self, program: int, size: int, address: int, *, dataflow: bool = False) -> None:
        """A circular buffer of a program, on cores that are not known."""
        flags = Flag.DATAFLOW if dataflow else 0
        self.event(
            Event(Op.CB_ALLOC, flags=flags, id=address, size=size, extra=program, address=address)
        )

    def phase(self, name: str | None) -> None:
        self._phase = self.text(name)
        self.event(Event(Notice.PHASE_ENTERED, name=self._phase))

    @contextmanager
    def in_phase(self, name: str) -> Iterator[None]:
        self.phase(name)
        yield
        self.phase(None)

    def mark(self, text: str) -> None:
        self.now += STEP_NS
        self.recorder.mark(text, self.now)

    def end_process(self) -> None:
        """The process dies; what it held is released."""
        self.books.release(self.books.processes[self.process], self.now)
