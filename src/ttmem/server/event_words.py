"""Each event in the seeds' words, exactly; off by default, because a line costs a hundred times the event.

✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)
"""

from __future__ import annotations

from collections.abc import Callable

from ttmem.events import EVENT_SIZE, Event, Flag, KernelType, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord
from ttmem.wire.rows import AccountRow, DeviceRow

_MB = 1 << 20


class EventWords:
    """Applies events one by one, and says what each did."""

    def __init__(self, books: Books, started_ns: int, write: Callable[[str], None]) -> None:
        self._books = books
        self._started = started_ns
        self._write = write
        self._peaks: dict[int, int] = {}

    def apply(
        self, process: ProcessRecord, data: bytes, offset: int, length: int, now: int
    ) -> None:
        """Accounts a batch, with a line for each event."""
        for at in range(offset, offset + length, EVENT_SIZE):
            event = Event.unpack(data, at)
            before = self._account(process, event)
            found = self._buffer(process, event)
            self._books.apply(process, data, at, EVENT_SIZE, now)
            after = self._account(process, event)
            if after is None:
                continue
            line = self._line(process, event, before, after, found)
            if line:
                self._write(line)
            self._peak(event, after.device, now)

    def died(self, pid: int, summary: str) -> None:
        """The release of a dead process."""
        self._write(f"⚠ PID {pid} is dead, removing its buffers...")
        self._write(f"   ✓ Removed {summary} from PID {pid}")

    def _account(self, process: ProcessRecord, event: Event) -> AccountRow | None:
        for row in self._books.account_rows():
            if row.process == process.index:
                device = self._books.devices[row.device]
                if device.declaration.logical_id == event.device:
                    return row
        return None

    def _buffer(self, process: ProcessRecord, event: Event) -> tuple[int, int, int] | None:
        if event.op not in (Op.ALLOC, Op.FREE):
            return None
        named = event.op == Op.ALLOC or event.flags & Flag.KIND_KNOWN
        kind = event.kind if named else -1
        return self._books.native.find_buffer(process.index, event.device, kind, event.id)

    def _line(
        self,
        process: ProcessRecord,
        event: Event,
        before: AccountRow | None,
        after: AccountRow,
        found: tuple[int, int, int] | None,
    ) -> str | None:
        pid, device = process.pid, event.device
        if event.op == Op.ALLOC and event.kind in set(MemoryKind):
            kind = MemoryKind(event.kind).name
            again = f", ref_count={found[2] + 1}" if found and found[1] == event.size else ""
            what = f"{event.size} bytes of {kind} on device {device}"
            return f"✓ [PID {pid}] Allocated {what} (buffer_id={event.id:#x}{again})"
        if event.op == Op.FREE:
            return _freed(pid, event, found)
        if event.op in (Op.CB_ALLOC, Op.CB_FREE):
            total = sum(r.cb_demand for r in self._books.account_rows() if r.device == after.device)
            delta = after.cb_demand - (before.cb_demand if before else 0)
            return _moved(Op(event.op).name, f"Device {device}", total, total - delta)
        if event.op in (Op.KERNEL_LOAD, Op.KERNEL_UNLOAD):
            return self._kernel(event, before, after)
        return None

    def _kernel(self, event: Event, before: AccountRow | None, after: AccountRow) -> str | None:
        old = before.footprint if before else (0, 0, 0)
        changed = [kind for kind in KernelType if after.footprint[kind] != old[kind]]
        if not changed:
            return None  # dispatched again: a counter moved, no memory
        where = f"{changed[0].name.title()} kernel on Device {event.device}"
        now = sum(sum(r.footprint) for r in self._books.account_rows() if r.device == after.device)
        delta = sum(after.footprint) - sum(old)
        return _moved(Op(event.op).name, where, now, now - delta)

    def _peak(self, event: Event, device: int, now: int) -> None:
        row: DeviceRow = self._books.device_rows(self._books.account_rows())[device]
        peak = row.peak[MemoryKind.L1]
        if peak > self._peaks.get(device, 0):
            self._peaks[device] = peak
            buffers = sum(
                r.counts[MemoryKind.L1] for r in self._books.account_rows() if r.device == device
            )
            elapsed = (now - self._started) // 1_000_000
            self._write(
                f"[{elapsed}ms] L1 Peak on device {event.device}: {peak // _MB} MB ({buffers} buffers)"
            )


def _freed(pid: int, event: Event, found: tuple[int, int, int] | None) -> str:
    if found is None:
        return (
            f"⚠ [PID {pid}] Deallocation for unknown buffer {event.id:#x} on device {event.device}"
            " (allocated before tracking started)"
        )
    _, size, references = found
    rest = "FINAL" if references == 1 else f"ref_count={references - 1} remaining"
    return (
        f"✗ [PID {pid}] Freed buffer {event.id:#x} on device {event.device} ({size} bytes, {rest})"
    )


def _moved(what: str, where: str, total: int, before: int) -> str:
    delta = total - before
    mark, sign = ("✓", "+") if delta >= 0 else ("✗", "-")
    return f"{mark} [{what}] {where}: {sign}{abs(delta) / _MB:.3f} MB (Total: {total / _MB:.3f} MB)"
