"""DUMP_REMAINING and DUMP_KERNELS in the seeds' words (their 'MB' and 'KB' are binary)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from ttmem.clock import now_ns
from ttmem.events import KernelType, MemoryKind
from ttmem.ledger import Books
from ttmem.wire.rows import BufferRow, CircularBufferRow, KernelRow, flat_rows

_MB = 1 << 20
LOOKED_AT = 1000  # the largest entries, of all devices; the sums are those of all
LISTED = 10  # of one kind on one device
LISTED_KERNELS = 40  # on one device
Place = tuple[int, str]  # device index, kind


def remaining_text(books: Books) -> str:
    """Live buffers by device and type, the largest of each."""
    counts, sums = _held(books)
    entries: dict[Place, list[tuple[int, str]]] = defaultdict(list)
    for row in flat_rows(BufferRow, books.native.buffers(LOOKED_AT)):
        owner = f"(PID {books.processes[row.process].pid}, ref_count={row.references})"
        line = f"Buffer {row.id:#x}: {row.size / 1024:g} KB {owner}"
        entries[row.device, MemoryKind(row.kind).name].append((row.size, line))
    for cb in flat_rows(CircularBufferRow, books.native.circular_buffers(LOOKED_AT)):
        owner = f"(PID {books.processes[cb.process].pid}, ref_count={cb.references})"
        line = f"CB {cb.address:#x}: {cb.size / 1024:g} KB {owner}"
        entries[cb.device, "CB"].append((cb.size * cb.references, line))
    lines = _title("REMAINING ALLOCATED BUFFERS")
    if not counts:
        return "\n".join([*lines, "✓ No buffers remaining"])
    lines.append(f"Total remaining buffers: {counts.total()}")
    for device in sorted({device for device, _ in counts}):
        lines.append(f"Device {books.devices[device].declaration.logical_id}:")
        for kind in (*MemoryKind.__members__, "CB"):
            if count := counts[device, kind]:
                size = sums[device, kind] / _MB
                lines.append(f"  {kind}: {count} buffers, {size:g} MB total")
                found = [text for _, text in sorted(entries[device, kind], reverse=True)]
                lines += _first(found, LISTED, count, "    ")
    return "\n".join([*lines, f"Total: {sums.total() / _MB:g} MB"])


def _held(books: Books) -> tuple[Counter[Place], Counter[Place]]:
    """How many there are of each kind on each device, and their bytes."""
    counts: Counter[Place] = Counter()
    sums: Counter[Place] = Counter()
    for row in books.event_rows():
        amounts = [(kind.name, row.counts[kind], row.requested[kind]) for kind in MemoryKind]
        for kind, count, size in (*amounts, ("CB", row.cb_count, row.cb_demand)):
            if count:
                counts[row.device, kind] += count
                sums[row.device, kind] += size
    return counts, sums


def kernels_text(books: Books) -> str:
    """Live kernels by device, the largest of each."""
    counts: Counter[int] = Counter()
    for row in books.event_rows():
        counts[row.device] += sum(row.kernels)
    by_device: dict[int, list[KernelRow]] = defaultdict(list)
    for kernel in flat_rows(KernelRow, books.native.kernels(LOOKED_AT)):
        by_device[kernel.device].append(kernel)
    lines = _title("LOADED KERNELS")
    if not counts.total():
        return "\n".join([*lines, "✓ No kernels loaded"])
    now = now_ns()
    for device in sorted(+counts):
        lines.append(
            f"Device {books.devices[device].declaration.logical_id}: {counts[device]} kernels"
        )
        rows = sorted(by_device[device], key=lambda row: row.footprint, reverse=True)
        found = (
            f"{KernelType(row.type).name.title()} kernel {row.id:#x}: {row.footprint / 1024:g} KB"
            f" (PID {books.processes[row.process].pid}, age {max(0, now - row.time) / 1e9:.1f} s)"
            for row in rows
        )
        lines += _first(found, LISTED_KERNELS, counts[device], "  ")
    return "\n".join(lines)


def _first(entries: Iterable[str], most: int, count: int, indent: str) -> list[str]:
    shown = [f"{indent}- {text}" for _, text in zip(range(most), entries, strict=False)]
    more = count - len(shown)
    return [*shown, f"{indent}... {more} more"] if more > 0 else shown


def _title(text: str) -> list[str]:
    rule = "═" * (len(text) + 4)
    return [f"╔{rule}╗", f"║  {text}  ║", f"╚{rule}╝"]
