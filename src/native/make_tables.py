"""Writes tables.hpp: the numbers and the columns that Python and C++ share, from the Python side: `make tables`.

An enum becomes a C++ enum, a row of `ttmem.wire.rows` a struct with one member for each column. The file is checked in,
so that a build needs no Python; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntFlag
from pathlib import Path

from ttmem.events import BinaryStatus, Control, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.events.record import BLANK
from ttmem.probe import layout
from ttmem.wire import rows
from ttmem.wire.historical import Stop

FILE = Path(__file__).with_name("tables.hpp")
HEAD = """\
// Made by make_tables.py (`make tables`) from the Python of the same names. Edit that instead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ttmem {

// Columns of a row that belong together: one for each kind of memory, or of kernel.
template <std::size_t N>
struct Columns {
    Columns(const std::uint64_t (&from)[N]) { std::copy_n(from, N, values); }
    std::uint64_t values[N];
};

}  // namespace ttmem
"""
ROWS = (
    rows.CounterColumns,
    rows.AccountRow,
    rows.DeviceRow,
    rows.BufferRow,
    rows.CircularBufferRow,
    rows.KernelRow,
    rows.ProgramRow,
    rows.FindingRow,
    rows.TotalsRow,
    rows.BufferChangeRow,
)


def tables() -> str:
    event = (Op, Notice, Control, Flag)
    region = (layout.Section, layout.RegionState, layout.Option, layout.Counted, layout.LiveType)
    parts = [
        HEAD,
        "namespace ttmem {\n",
        *map(_enum, event),
        f"constexpr std::uint8_t FIRST_NOTICE = {min(Notice)};  // from here on: Notice, which changes no account",
        f"constexpr std::uint8_t BLANK = {BLANK};  // in a recording: an event on a device that was not selected\n",
        _enum(MemoryKind, "KIND_"),
        f"constexpr int KINDS = {len(MemoryKind)};\n",
        _enum(KernelType, "KERNEL_"),
        f"constexpr int KERNEL_TYPES = {len(KernelType)};\n",
        _enum(BinaryStatus),
        _enum(rows.FindingCode, scoped=True),
        f"constexpr int FINDING_CODES = {len(rows.FindingCode)};\n",
        _enum(rows.Reject, scoped=True),
        _enum(Stop, scoped=True),
        *map(_struct, ROWS),
        "}  // namespace ttmem\n",
        "namespace ttmem::probe {\n",
        *map(_enum, region),
        "}  // namespace ttmem::probe\n",
    ]
    return "\n".join(parts)


def _enum(enum: type[Enum], prefix: str = "", *, scoped: bool = False) -> str:
    bits = 16 if issubclass(enum, IntFlag) else 8
    members = [f"{prefix}{each.name} = {each.value}," for each in enum]
    keyword = "enum class" if scoped else "enum"
    return _block(f"{keyword} {enum.__name__} : std::uint{bits}_t", members)


def _struct(row: type[tuple[object, ...]]) -> str:
    return _block(f"struct {row.__name__}", list(_columns(row)))


def _columns(row: type[tuple[object, ...]]) -> Iterator[str]:
    for name, width in rows.widths(row):
        if name == "counters":
            yield f"{rows.CounterColumns.__name__} {name};"
        else:
            yield f"Columns<{width}> {name};" if width else f"std::uint64_t {name};"


def _block(head: str, members: list[str]) -> str:
    return "\n".join([f"{head} {{", *(f"    {each}" for each in members), "};", ""])


if __name__ == "__main__":
    FILE.write_text(tables())
