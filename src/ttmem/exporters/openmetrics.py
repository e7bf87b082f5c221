"""Metrics for Prometheus and everything that reads its formats.

Unknown values have no sample, never 0. Labels are few: a device is its unique id, and `ttmem_device_info` has the rest
of what identifies it. Processes are added up by user, program, pod and job, so that series do not multiply with pids.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ttmem.events import Amounts, CardSample, Telemetry
from ttmem.snapshots import Device, MemoryUse, Process, Snapshot
from ttmem.text import program_name
from ttmem.version import __version__
from ttmem.workloads import Workload

Number = int | float | None
Sample = tuple[str, Number]  # labels as they are written, and the value
KINDS = ("dram", "l1", "l1_small", "trace")
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


UNITS = ("bytes", "seconds", "celsius", "watts", "volts", "amperes", "hertz")


class Family(NamedTuple):
    """A metric. The name of a counter ends in `_total`."""

    name: str
    about: str
    samples: list[Sample]

    @property
    def unit(self) -> str:
        """The last part of the name, without `_total`; empty if that is no unit."""
        last = self.name.removesuffix("_total").rpartition("_")[2]
        return last if last in UNITS else ""

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


def render(families: Iterable[Family], *, openmetrics: bool = False) -> str:
    """In the text format of Prometheus, or in OpenMetrics. Families without samples are left out."""
    lines: list[str] = []
    for family in families:
        known = [(labels, value) for labels, value in family.samples if value is not None]
        if not known:
            continue
        name = family.name.removesuffix("_total") if openmetrics else family.name
        lines.append(f"# HELP {name} {_escaped_help(family.about)}")
        lines.append(f"# TYPE {name} {'counter' if family.is_counter else 'gauge'}")
        if openmetrics and family.unit:
            lines.append(f"# UNIT {name} {family.unit}")
        for labels, value in known:
            where = f"{{{labels}}}" if labels else ""
            lines.append(f"{family.name}{where} {_number(value)}")
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _number(value: Number) -> str:
    return str(value) if isinstance(value, int) else repr(value)


def labels(**given: str | int | None) -> str:
    """The labels of a sample; unknown ones are left out."""
    return ",".join(
        f'{name}="{_escaped(str(value))}"' for name, value in given.items() if value is not None
    )


def _escaped(text: str) -> str:
    if '"' not in text and "\\" not in text and text.isprintable():
        return text
    clean = text.encode("utf-8", "replace").decode()  # lone surrogates are not valid UTF-8
    return clean.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escaped_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def families(
    snapshot: Snapshot, *, per_process: bool = False, compat: bool = False
) -> list[Family]:
    """All metrics of a snapshot. `compat`: also under the names of tt-exporter."""
    found = [*_host(snapshot), *_devices(snapshot), *_telemetry(snapshot.devices)]
    if per_process:
        found.append(_processes(snapshot.processes))
    if compat:
        found += _as_tt_exporter(snapshot, per_process)
    return found


# -- the host ----------------------------------------------------------------------------------------------------


def _host(snapshot: Snapshot) -> Iterator[Family]:
    losses = snapshot.losses
    remarks: dict[str, int] = defaultdict(int)
    for remark in snapshot.remarks:
        remarks[remark.kind] += 1
    yield Family("ttmem_build_info", "The version of ttmem.", [(labels(version=__version__), 1)])
    yield _plain("ttmem_snapshot_time_seconds", "When this was true.", snapshot.time_ns / 1e9)
    yield _plain("ttmem_processes", "Live processes that use a device.", len(snapshot.processes))
    yield _plain(
        "ttmem_ghost_processes",
        "Dead processes that the counters in shared memory still list; `ttmem clean` removes them.",
        sum(one.ghost for one in snapshot.left_behind),
    )
    yield _plain(
        "ttmem_lost_events_total",
        "Events that were dropped, or overwritten before they were read.",
        losses.dropped_events,
    )
    yield _plain(
        "ttmem_event_gaps_total", "How often a process reported dropped events.", losses.gaps
    )
    yield _plain(
        "ttmem_rejected_records_total",
        "Records that could not be read, or made no sense.",
        losses.rejected_records,
    )
    samples: list[Sample] = [(labels(kind=kind), count) for kind, count in remarks.items()]
    yield Family("ttmem_remarks", "Remarks about the host, by kind.", samples)


def _plain(name: str, about: str, value: Number) -> Family:
    return Family(name, about, [("", value)])


# -- devices -----------------------------------------------------------------------------------------------------


class _Table:
    """Families in the order of their first sample."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def add(self, name: str, about: str, where: str, value: Number) -> None:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = Family(name, about, [])
        family.samples.append((where, value))

    def families(self) -> Iterator[Family]:
        yield from self._families.values()


def _devices(snapshot: Snapshot) -> Iterator[Family]:
    table = _Table()
    for device in snapshot.devices:
        _identity(table, device)
        for kind in KINDS:
            where = labels(device=device.unique_id, memory=kind)
            _memory(table, where, getattr(device.memory, kind))
        _l1(table, device)
        _kernels(table, device)
        _anomalies(table, device)
    ghosts: dict[str, list[Amounts]] = defaultdict(list)
    for left in snapshot.left_behind:
        for unique_id, amounts in left.devices.items() if left.ghost else ():
            ghosts[unique_id].append(amounts)
    for unique_id, parts in ghosts.items():
        for kind, size in Amounts.total(parts)._asdict().items():
            where = labels(device=unique_id, memory=kind)
            about = "What counters say dead processes hold; part of no other metric."
            table.add("ttmem_ghost_memory_bytes", about, where, size)
    yield from table.families()


def _identity(table: _Table, device: Device) -> None:
    where = labels(
        device=device.unique_id,
        id=device.logical_id,
        board=device.board,
        arch=device.arch,
        pci=device.pci,
        position=device.position,
    )
    table.add("ttmem_device_info", "What is known about a device; always 1.", where, 1)


def _memory(table: _Table, where: str, memory: MemoryUse) -> None:
    add = table.add
    about = "Bytes held by live buffers: reserved ones where they are known, else requested ones."
    add("ttmem_memory_used_bytes", about, where, memory.held)
    about = "Bytes that applications asked for."
    add("ttmem_memory_requested_bytes", about, where, memory.requested)
    about = "Bytes that live buffers take in all banks."
    add("ttmem_memory_reserved_bytes", about, where, memory.reserved)
    add("ttmem_memory_capacity_bytes", "What can be allocated.", where, memory.capacity)
    about = "The highest value of ttmem_memory_used_bytes."
    add("ttmem_memory_peak_bytes", about, where, memory.peak)
    about = "The largest block that one allocation can still get, in all banks."
    add("ttmem_memory_largest_free_bytes", about, where, memory.largest_free)
    add("ttmem_buffers", "Live buffers.", where, memory.count)


def _l1(table: _Table, device: Device) -> None:
    where = labels(device=device.unique_id)
    about = "L1 in use: L1, L1_SMALL and circular buffers."
    table.add("ttmem_l1_used_bytes", about, where, device.l1_used)
    about = "What L1, L1_SMALL and circular buffers share."
    table.add("ttmem_l1_capacity_bytes", about, where, device.l1_capacity)
    about = "The highest value of ttmem_l1_used_bytes."
    table.add("ttmem_l1_peak_bytes", about, where, device.l1_peak)
    about = "Circular buffers, by what is added up; ttmem_l1_used_bytes includes meaning=used."
    for meaning in ("used", "resident", "cached", "demand", "dataflow", "shared"):
        where = labels(device=device.unique_id, meaning=meaning)
        value = getattr(device.memory.cb, meaning)
        table.add("ttmem_circular_buffer_bytes", about, where, value)


def _kernels(table: _Table, device: Device) -> None:
    kernels, where = device.kernels, labels(device=device.unique_id)
    add = table.add
    add("ttmem_kernel_ring_capacity_bytes", "The kernel-config ring.", where, kernels.ring.capacity)
    add("ttmem_kernel_ring_used_bytes", "Its occupied part.", where, kernels.ring.occupied)
    add("ttmem_kernel_ring_wraps_total", "How often it wrapped.", where, kernels.ring.wraps)
    add("ttmem_kernel_ring_syncs_total", "How often it was full.", where, kernels.ring.syncs)
    about = "The part of DRAM that holds kernel binaries."
    add("ttmem_kernel_binaries_bytes", about, where, kernels.dram_binaries)
    about = "Kernel binary times cores, by type: what kernels would take if resident everywhere."
    for kind in ("application", "fabric", "dispatch"):
        each = labels(device=device.unique_id, type=kind)
        add("ttmem_kernel_footprint_bytes", about, each, getattr(kernels.footprint, kind))
    add("ttmem_kernels", "Live kernels.", where, kernels.count)
    add("ttmem_kernel_loads_total", "Kernels that were loaded.", where, kernels.loads)
    add("ttmem_program_dispatches_total", "Programs dispatched.", where, kernels.dispatches)
    add("ttmem_program_cache_entries", "Programs in the cache.", where, kernels.cache_entries)
    add("ttmem_program_cache_hits_total", "Programs found there.", where, kernels.cache_hits)
    add("ttmem_program_cache_misses_total", "Programs not found.", where, kernels.cache_misses)


def _anomalies(table: _Table, device: Device) -> None:
    where = labels(device=device.unique_id)
    about = "Allocations that failed in watched processes."
    table.add("ttmem_failed_allocations_total", about, where, device.failed_allocations)
    counts: dict[str, int] = defaultdict(int)
    for anomaly in device.anomalies:
        counts[anomaly.kind] += 1
    for kind, count in counts.items():
        where = labels(device=device.unique_id, kind=kind)
        about = "What does not add up at present, by kind; `ttmem ps` says it in sentences."
        table.add("ttmem_anomalies", about, where, count)


_SENSORS = (
    ("temperature_c", "ttmem_temperature_celsius", "Of the ASIC.", 1),
    ("power_w", "ttmem_power_watts", "Power of the chip.", 1),
    ("current_a", "ttmem_current_amperes", "Current of the chip.", 1),
    ("voltage_mv", "ttmem_core_volts", "Voltage of the core.", 1e-3),
    ("aiclk_mhz", "ttmem_aiclk_hertz", "Clock of the Tensix cores.", 1_000_000),
    ("axiclk_mhz", "ttmem_axiclk_hertz", "Clock of the AXI bus.", 1_000_000),
    ("arcclk_mhz", "ttmem_arcclk_hertz", "Clock of the ARC.", 1_000_000),
    ("fan_rpm", "ttmem_fan_rpm", "Speed of the fan, in revolutions per minute.", 1),
    ("heartbeat", "ttmem_firmware_heartbeats_total", "Kept incrementing by the firmware.", 1),
)


def _telemetry(devices: Iterable[Device]) -> Iterator[Family]:
    table = _Table()
    for device in devices:
        where = labels(device=device.unique_id)
        for field, name, about, factor in _SENSORS:
            value = None if device.telemetry is None else getattr(device.telemetry, field)
            table.add(name, about, where, None if value is None else value * factor)
    yield from table.families()


# -- processes ---------------------------------------------------------------------------------------------------


def _processes(processes: Iterable[Process]) -> Family:
    """Processes with the same labels are one series."""
    sums: dict[tuple[str | None, ...], list[Amounts]] = defaultdict(list)
    for process in processes:
        belongs = process.workload or Workload()
        who = (process.user, program_name(process.command))
        where = (belongs.pod, belongs.namespace, belongs.container, belongs.job)
        for unique_id, amounts in process.devices.items():
            sums[(unique_id, *who, *where)].append(amounts)
    samples: list[Sample] = []
    names = ("device", "user", "program", "pod", "namespace", "container", "job")
    for values, parts in sums.items():
        given = labels(**dict(zip(names, values, strict=True)))
        for kind, size in Amounts.total(parts)._asdict().items():
            samples.append((f'{given},memory="{kind}"', size))
    about = "Bytes held by live processes, added up over processes with the same labels."
    return Family("ttmem_process_memory_bytes", about, samples)


# -- other names -------------------------------------------------------------------------------------------------


def _as_tt_exporter(snapshot: Snapshot, per_process: bool) -> Iterator[Family]:
    """The names and labels of tt-exporter, as far as the figures are known here exactly.

    It has more: the percentage of the fan, and fields of the shared memory that ttmem does not rely on, such as the
    reference count, which stays too high after a crash.
    """
    table = _Table()
    where = {device.unique_id: _asic(device) for device in snapshot.devices}
    ghosts = {unique_id for one in snapshot.left_behind if one.ghost for unique_id in one.devices}
    used = {unique_id for process in snapshot.processes for unique_id in process.devices}
    for device in snapshot.devices:
        _region(table, device, device.unique_id in ghosts - used)
    for process in snapshot.processes if per_process else ():
        for unique_id, amounts in process.devices.items():
            if unique_id in where:
                name = program_name(process.command)
                here = labels(**where[unique_id], pid=process.pid, process_name=name)
                about = "DRAM held by a process."
                table.add("tenstorrent_proc_dram_used_bytes", about, here, amounts.dram)
    for pci, told in _sensors(snapshot).items():
        _card(table, labels(device_id=pci), told)
    yield from table.families()


def _region(table: _Table, device: Device, phantom: bool) -> None:
    here = labels(**_asic(device))
    if not phantom:  # else the original has no used bytes either
        about = "DRAM in use."
        table.add("tenstorrent_dram_used_bytes", about, here, device.memory.dram.held)
        about = "L1 in use: L1, L1_SMALL and circular buffers."
        table.add("tenstorrent_l1_used_bytes", about, here, device.l1_used)
    if any(anomaly.kind == "elsewhere" for anomaly in device.anomalies):
        about = "1: a container holds memory whose processes cannot be found."
        table.add("tenstorrent_shm_liveness_unverifiable", about, here, 1)
    else:
        about = "1: only dead processes are listed in shared memory."
        table.add("tenstorrent_mem_phantom", about, here, int(phantom))
    for provenance in device.provenance.values():
        if match := re.fullmatch(r"shared memory v(\d+)", provenance.source):
            about = "The layout of the counters in shared memory."
            table.add("tenstorrent_shm_version", about, here, int(match[1]))
            about = "What is known about the counters in shared memory; always 1."
            known = labels(**_asic(device), metal_device_id=device.logical_id)
            table.add("tenstorrent_shm_info", about, known, 1)
            break


def _sensors(snapshot: Snapshot) -> dict[str, Telemetry]:
    """By PCI address, also of idle cards."""
    every: tuple[CardSample | Device, ...] = (*snapshot.cards, *snapshot.devices)
    return {one.pci: one.telemetry for one in every if one.pci and one.telemetry}


def _card(table: _Table, here: str, read: Telemetry) -> None:
    table.add("tenstorrent_power_watts", "Power.", here, read.power_w)
    table.add("tenstorrent_temperature_celsius", "Of the ASIC.", here, read.temperature_c)
    table.add("tenstorrent_aiclk_mhz", "Clock of the Tensix cores.", here, read.aiclk_mhz)
    if read.power_w is not None and read.limits.power_w:
        about = "Power, as a percentage of its limit."
        share = 100 * read.power_w / read.limits.power_w
        table.add("tenstorrent_utilization_percent", about, here, share)


def _asic(device: Device) -> Mapping[str, str]:
    known = device.unique_id.isdecimal()
    asic = f"0x{int(device.unique_id):016x}" if known else device.unique_id
    return {"asic_id": asic, "device_id": device.pci or ""}
