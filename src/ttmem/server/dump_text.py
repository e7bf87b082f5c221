"""DUMP_REMAINING and DUMP_KERNELS in the seeds' words (their 'MB' and 'KB' are binary)."""

from __future__ import annotations

import time
from collections import defaultdict

from ttmem.events import KernelType, MemoryKind
from ttmem.ledger import Books
from ttmem.wire.rows import BufferRow, CircularBufferRow, KernelRow, flat_rows

_MB = 1 << 20
_LISTED = 10


def remaining_text(books: Books) -> str:
    """Live buffers by device and type; entries are listed where they are few."""
    by_device: dict[int, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    count = 0
    for row in flat_rows(BufferRow, books.native.buffers()):
        owner = f"(PID {books.processes[row.process].pid}, ref_count={row.references})"
        line = f"Buffer {row.id:#x}: {row.size / 1024:g} KB {owner}"
        by_device[row.device][MemoryKind(row.kind).name].append((row.size, line))
        count += 1
    for cb in flat_rows(CircularBufferRow, books.native.circular_buffers()):
        owner = f"(PID {books.processes[cb.process].pid}, ref_count={cb.references})"
        line = f"CB {cb.address:#x}: {cb.size / 1024:g} KB {owner}"
        by_device[cb.device]["CB"].append((cb.size * cb.references, line))
        count += 1
    lines = _title("REMAINING ALLOCATED BUFFERS")
    if not count:
        return "\n".join([*lines, "✓ No buffers remaining"])
    lines.append(f"Total remaining buffers: {count}")
    total = 0
    for device in sorted(by_device):
        lines.append(f"Device {books.devices[device].declaration.logical_id}:")
        for kind, entries in by_device[device].items():
            bytes_ = sum(size for size, _ in entries)
            total += bytes_
            lines.append(f"  {kind}: {len(entries)} buffers, {bytes_ / _MB:g} MB total")
            if len(entries) <= _LISTED:
                lines += [f"    - {text}" for _, text in sorted(entries, reverse=True)]
    return "\n".join([*lines, f"Total: {total / _MB:g} MB"])


def kernels_text(books: Books) -> str:
    """Live kernels by device."""
    by_device: dict[int, list[KernelRow]] = defaultdict(list)
    for row in flat_rows(KernelRow, books.native.kernels()):
        by_device[row.device].append(row)
    lines = _title("LOADED KERNELS")
    if not by_device:
        return "\n".join([*lines, "✓ No kernels loaded"])
    now = time.time_ns()
    for device in sorted(by_device):
        rows = sorted(by_device[device], key=lambda row: row.footprint, reverse=True)
        lines.append(f"Device {books.devices[device].declaration.logical_id}: {len(rows)} kernels")
        lines += [
            f"  - {KernelType(row.type).name.title()} kernel {row.id:#x}: {row.footprint / 1024:g} KB"
            f" (PID {books.processes[row.process].pid}, age {max(0, now - row.time) / 1e9:.1f} s)"
            for row in rows
        ]
    return "\n".join(lines)


def _title(text: str) -> list[str]:
    rule = "═" * (len(text) + 4)
    return [f"╔{rule}╗", f"║  {text}  ║", f"╚{rule}╝"]
