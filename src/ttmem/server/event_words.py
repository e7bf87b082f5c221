"""Each event in the words of the original server; off by default.

✓ [KERNEL_LOAD] Fabric kernel on Device 0: +0.875 MB (Total: 0.875 MB)
"""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.ledger import Books, ProcessRecord
from ttmem.server.output import Output
from ttmem.wire.rows import AccountRow

_MB = 1 << 20


class EventWords:
    """Applies events and says what each did. The lines are made natively: 200,000 a second are too many for Python."""

    def __init__(self, books: Books, started_ns: int, output: Output, dispatches: bool) -> None:
        self._books = books
        self._started = started_ns
        self._output = output
        self._dispatches = dispatches

    def apply(
        self, process: ProcessRecord, data: bytes, offset: int, length: int, now: int
    ) -> None:
        """Accounts a batch, with a line for each event."""
        elapsed_ms = max(0, now - self._started) // 1_000_000

        def in_words(index: int, events: bytes, at: int, length: int, now: int) -> int:
            done, lines = self._books.native.apply_in_words(
                index, events, at, length, now, process.pid, elapsed_ms, self._dispatches
            )
            self._output.write(lines)
            return done

        self._books.apply(process, data, offset, length, now, in_words)

    def died(self, pid: int, rows: Iterable[AccountRow]) -> None:
        """The release of a dead process; `rows` are its accounts."""
        rows = list(rows)
        removed = {
            "buffers": (sum(sum(r.counts) for r in rows), sum(sum(r.requested) for r in rows)),
            "CBs": (sum(r.cb_count for r in rows), sum(r.cb_demand for r in rows)),
            "kernels": (sum(sum(r.kernels) for r in rows), sum(sum(r.footprint) for r in rows)),
        }
        lines = [f"⚠ PID {pid} is dead, removing its buffers..."]
        lines += [
            f"   ✓ Removed {count} {what} ({size / _MB:g} MB) from PID {pid}"
            for what, (count, size) in removed.items()
            if count
        ]
        self._output.write("".join(f"{line}\n" for line in lines).encode())
