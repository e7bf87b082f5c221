"""What a picture says about cores, read with care: it may come from any server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ttmem.snapshots import Device, Snapshot
from ttmem.views.monitor.address_ranges import Range

Core = tuple[int, int]
T = TypeVar("T")

NOT_TOLD = "no source of this device tells what lies on which core"
SUMS_ONLY = "the counters of stock ttnn tell sums, and no addresses"
DAMAGED = "what the server says about cores is damaged"


class Unknown(Exception):
    """A figure is not known; the text says why."""


@dataclass(frozen=True, slots=True)
class CoreSet:
    """Cores on which a process's cached programs have their circular buffers at the same addresses."""

    pid: int | None
    cores: frozenset[Core]
    cached: int  # bytes on each of them
    regions: tuple[Range, ...]
    highest_program: int | None


@dataclass(frozen=True, slots=True)
class ResidentBuffer:
    """A circular or dataflow buffer of the program that ran last on these cores."""

    pid: int | None
    program: int | None
    cores: frozenset[Core]
    start: int
    end: int
    dataflow: bool


@dataclass(frozen=True, slots=True)
class L1Buffer:
    """A live buffer in L1; the same block in every bank."""

    pid: int | None
    id: int | None
    address: int | None
    reserved: int | None  # in all banks
    name: str | None


def core_sets(snapshot: Snapshot, device: Device) -> tuple[CoreSet, ...]:
    """Where circular buffers lie; Unknown if it is not told of all of them."""
    if device.memory.cb.count is None:
        raise Unknown(SUMS_ONLY)
    if device.memory.cb.cached is None:
        raise Unknown("circular buffers came without cores or addresses")
    return _read(_by_device(snapshot, "cores", device), _core_set)


def resident_buffers(snapshot: Snapshot, device: Device) -> tuple[ResidentBuffer, ...]:
    """What lies there now; nothing if it is not told."""
    try:
        return _read(_by_device(snapshot, "resident", device), _resident)
    except Unknown:
        return ()


def l1_buffers(snapshot: Snapshot, device: Device, kind: str = "L1") -> tuple[L1Buffer, ...]:
    """Of kind L1 or L1_SMALL; Unknown if they are not told."""
    if device.memory.l1.count is None:
        raise Unknown(SUMS_ONLY)
    rows = snapshot.detail.get("l1_buffers")
    if not isinstance(rows, list):
        raise Unknown("no source of this device tells the addresses of its L1 buffers")
    own = [
        row
        for row in rows
        if isinstance(row, Mapping)
        and row.get("device") == device.unique_id
        and row.get("kind") == kind
    ]
    return _read(own, _l1_buffer)


def block(buffer: L1Buffer, banks: int) -> Range | None:
    """Its addresses in each bank; None if they are not told."""
    if buffer.address is None or not buffer.reserved or banks < 1:
        return None
    return buffer.address, buffer.address + buffer.reserved // banks


def _by_device(snapshot: Snapshot, key: str, device: Device) -> Any:
    found = snapshot.detail.get(key)
    if not isinstance(found, Mapping):
        raise Unknown(NOT_TOLD)
    if device.unique_id not in found:
        raise Unknown("the cores of this device have not been read yet")
    return found[device.unique_id]


def _read(rows: Any, make: Callable[[Any], T]) -> tuple[T, ...]:
    try:
        return tuple(make(row) for row in rows)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise Unknown(DAMAGED) from problem


def _core_set(row: Mapping[str, Any]) -> CoreSet:
    regions = tuple((_amount(start), _amount(end)) for start, end in row["regions"])
    return CoreSet(
        _maybe(row.get("pid")),
        _cores(row["cores"]),
        _amount(row["cached"]),
        regions,
        _maybe(row.get("highest_program")),
    )


def _resident(row: Mapping[str, Any]) -> ResidentBuffer:
    return ResidentBuffer(
        _maybe(row.get("pid")),
        _maybe(row.get("program")),
        _cores(row["cores"]),
        _amount(row["start"]),
        _amount(row["end"]),
        bool(row.get("dataflow")),
    )


def _l1_buffer(row: Mapping[str, Any]) -> L1Buffer:
    name = row.get("name") or row.get("site")
    return L1Buffer(
        _maybe(row.get("pid")),
        _maybe(row.get("id")),
        _maybe(row.get("address")),
        _maybe(row.get("reserved")),
        name if isinstance(name, str) else None,
    )


def _cores(pairs: Iterable[Any]) -> frozenset[Core]:
    return frozenset((_amount(x), _amount(y)) for x, y in pairs)


def _amount(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} is no amount")
    return value


def _maybe(value: Any) -> int | None:
    return None if value is None else _amount(value)
