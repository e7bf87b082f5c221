"""Where the numbers of a device come from, how they were determined, and what they are known to miss."""

from __future__ import annotations

from collections.abc import Mapping

from ttmem.fast_dataclasses import replace
from ttmem.ledger.context import DeviceContext, ProcessContext
from ttmem.ledger.processes import ALL_CHIPS, LOWER_BOUND, UNSEEN_EVENTS, UNTRACKED, in_words
from ttmem.ledger.rows import CounterRow
from ttmem.snapshots import Provenance
from ttmem.wire.rows import AccountRow

_UNION = "cached: per-core union of address ranges over each process's live programs"
_DEMAND = "demand: plain sum over all live programs"
_OVERLAP = "an L1 buffer may lie where a cached program has circular buffers: both count"
_OLDER = "buffers that are older than the server, of clients that do not resend"
_COUNTED = (
    "counted: the runtime's own counter, binary x cores of all it ever compiled; not part of L1"
)
_PEAKS = (
    "peaks of events and counters together, unless both were read at their highest: these are N/A"
)
_PLAIN_SUM = "cores are unknown, so programs that share addresses are added up"


def device_provenance(
    device: DeviceContext,
    processes: Mapping[int, ProcessContext],
    rows: list[AccountRow],
    peaks_unknown: bool,
) -> dict[str, Provenance]:
    """By kind of memory, and for identity and capacity."""
    told = [processes[row.process] for row in rows if not isinstance(row, CounterRow)]
    events = [row for row in rows if not isinstance(row, CounterRow)]
    parts: list[tuple[Provenance, Provenance]] = []
    if told or not device.by_counters:
        parts.append(_of_events(device, told, events))
    if device.sample is not None and (len(told) < len(rows) or device.by_counters):
        parts.append(_of_counters(device))
    source = parts[0][0].source
    return {
        "identity": device.identity,
        "capacity": device.capacity_provenance,
        **dict.fromkeys(
            ("dram", "l1", "l1_small", "trace"),
            _with_peaks(_together([buffers for buffers, _ in parts]), peaks_unknown),
        ),
        "cb": _together([circular for _, circular in parts]),
        "kernels": _kernels(device, told, source, len(parts) > 1),
    }


def _of_events(
    device: DeviceContext, processes: list[ProcessContext], rows: list[AccountRow]
) -> tuple[Provenance, Provenance]:
    """For buffers, and for circular buffers."""
    sources = {source for process in processes for source in process.sources}
    source = " + ".join(in_words(sources)) or "none"
    placed = all(not row.cb_unplaced and not row.cb_map_full for row in rows)
    reserved = all(not any(row.unreserved) for row in rows)
    buffers = Provenance(
        source,
        "sum of live buffers, "
        + ("reserved bytes" if reserved else "requested bytes where reserved are unknown"),
        _misses(sources or {device.capacity_provenance.source}, processes),
    )
    misses = [_OVERLAP if placed else _PLAIN_SUM, *_gaps(processes, device)]
    circular = Provenance(source, _UNION if placed else _DEMAND, "; ".join(misses))
    return buffers, circular


def _misses(sources: set[str], processes: list[ProcessContext]) -> str | None:
    """`sources`: of the processes; if all have ended, of the declaration."""
    unseen = sorted({name for process in processes for name in process.missing})
    parts = [
        _OLDER if sources != {"probe"} else None,
        UNTRACKED if any(process.untracked for process in processes) else None,
        f"{', '.join(unseen)}, which this runtime does not expose to the probe" if unseen else None,
    ]
    return "; ".join(part for part in parts if part) or None


def _gaps(processes: list[ProcessContext], device: DeviceContext) -> list[str]:
    """What the probe misses of circular buffers and kernels."""
    beyond = any(device.unique_id in process.lower_bound for process in processes)
    missed = device.l1_peak_missed or any(process.missed for process in processes)
    untracked = any(process.untracked for process in processes)
    nowhere = any("program ranges" in process.missing for process in processes)
    return [
        *([UNTRACKED] if untracked else []),
        *([LOWER_BOUND] if beyond else []),
        *([UNSEEN_EVENTS] if missed else []),
        *([ALL_CHIPS] if nowhere else []),
    ]


def _of_counters(device: DeviceContext) -> tuple[Provenance, Provenance]:
    sample = device.sample
    assert sample is not None
    source = sample.source
    return (
        Provenance(source, "sum of live slots, requested bytes", sample.misses),
        Provenance(source, sample.cb_method, sample.misses),
    )


def _together(parts: list[Provenance]) -> Provenance:
    """Both, each with its name if there are two."""
    if len(parts) == 1:
        return parts[0]
    named = [(part, f"{part.source}: ") for part in parts]
    return Provenance(
        " + ".join(part.source for part in parts),
        "; ".join(name + part.method for part, name in named),
        "; ".join(name + part.misses for part, name in named if part.misses),
    )


def _with_peaks(buffers: Provenance, unknown: bool) -> Provenance:
    if not unknown:
        return buffers
    return replace(buffers, misses="; ".join(filter(None, [buffers.misses, _PEAKS])))


def _kernels(
    device: DeviceContext, told: list[ProcessContext], source: str, mixed: bool
) -> Provenance:
    if device.by_counters and device.sample is not None and device.sample.counts_kernels:
        return Provenance(source, _COUNTED, "types, cores, loads and dispatches of kernels")
    if device.by_counters:
        return Provenance(source, "unknown", "counters know nothing about kernels")
    method = "footprint: binary x cores, if resident everywhere; not part of L1"
    gaps = _gaps(told, device)
    misses = [
        *(["kernels of processes that are known only from shared memory"] if mixed else []),
        *gaps,
    ]
    return Provenance(source, method, "; ".join(misses) or None)
