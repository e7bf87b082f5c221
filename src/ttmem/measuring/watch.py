"""`with ttmem.watch() as w:` measures what this process allocates inside the block."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import fields

from ttmem.analysis.composition import Holder, grouped
from ttmem.analysis.history import L1_USED, MEMORIES
from ttmem.errors import BadInput
from ttmem.html import Rows, table
from ttmem.measuring.follow import Follower, MemoryFile, shared
from ttmem.measuring.measured import FIELDS, Measured, Peak, holder_rows
from ttmem.measuring.own import why_unknown
from ttmem.sizes import human

RUNNING = "the block has not ended yet"


class Watch:
    """A block that is or was measured; figures are there when it has ended."""

    def __init__(self) -> None:
        self._follower: Follower | None = None
        self._file = MemoryFile()
        self._measured: Measured | None = None
        self.why: str | None = (
            "the block has not begun"  # why figures are None; None: they are known
        )

    def __enter__(self) -> Watch:
        if self._file.data or self._follower is not None:
            raise BadInput("a watch measures one block; make a new one with ttmem.watch()")
        self.why = why_unknown() or RUNNING
        if self.why == RUNNING:
            try:
                self._follower = shared()
                self._follower.begin(self._file, "ttmem.watch")
            except BadInput:
                raise
            except Exception as problem:  # the watched program goes on
                self._follower, self.why = None, f"the probe cannot be read: {problem}"
        return self

    def __exit__(self, *_: object) -> None:
        follower, self._follower = self._follower, None
        if follower is None:
            return
        gc.collect()  # what only a cycle keeps is not leaked
        try:
            follower.end()
            self._measured = Measured(self._file)
            losses = self._measured.losses
            self.why = why_unknown() or ("; ".join(losses) if losses else None)
        except Exception as problem:
            self._measured, self.why = None, f"the measurement cannot be read: {problem}"

    @property
    def peak(self) -> Peak:
        """The most that was held at any instant of the block, with what was alive before: of the fullest device."""
        return Peak() if self.why or self._measured is None else self._measured.peak

    @property
    def devices(self) -> Mapping[str, Peak]:
        """The peaks of each device, by unique id; empty if unknown."""
        return {} if self.why or self._measured is None else self._measured.devices

    @property
    def leaked(self) -> Rows[Holder] | None:
        """What was allocated in the block and is alive after it, by call site; None: unknown.

        What programs keep that were added to the program cache is not included.
        """
        return None if self.why or self._measured is None else self._measured.leaked

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
        if self.why or self._measured is None:
            return None
        return holder_rows(grouped(self._measured.at_peak(memory), *names))

    def save(self, file: str) -> None:
        """Writes the block as a recording, for `ttmem peak`, `ttmem top` and all others that take a file."""
        from ttmem.recording.writer import FileSink

        if not self._file.data:
            raise BadInput(f"there is nothing to save: {self.why}")
        sink = FileSink(file)
        sink.append(bytes(self._file.data))
        sink.close()

    def __repr__(self) -> str:
        if self.why:
            return f"Watch(N/A: {self.why})"
        leaked, peak = sum(one.bytes for one in self.leaked or ()), self.peak
        sizes = f"dram={human(peak.dram)}, l1_used={human(peak.l1_used)}, leaked={human(leaked)}"
        return f"Watch({sizes})"

    def _repr_html_(self) -> str:
        names = [field.name for field in fields(Peak)]
        if self.why:
            return table(("peak of", "bytes"), [(name, "N/A") for name in names], self.why)
        rows = [
            (device, *(human(getattr(peak, name)) for name in names))
            for device, peak in self.devices.items()
        ]
        held, leaked = self.by("site"), self.leaked
        parts = [table(("peak on device", *names), rows)]
        if held:
            parts += ["<p>alive at the peak of l1_used</p>", held._repr_html_()]
        if leaked:
            parts += ["<p>leaked</p>", leaked._repr_html_()]
        return "".join(parts)


def watch() -> Watch:
    """Measures what this process allocates in a block: exact peaks, what was alive at them, what was not freed.

    It needs the probe (`ttmem run`, or the pytest plugin), but no server. Without the probe the block runs as always,
    figures are None, and `why` says why. One block at a time.
    """
    return Watch()
