"""Remarks on counter files, and on processes that use a device without publishing anything."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from ttmem.events import KINDS, Amounts, DeviceSample, Owner, ProcessSample, Remark
from ttmem.procfs import user_name
from ttmem.sizes import human
from ttmem.sources.counters.layout import PROCESSES, CounterRegion
from ttmem.sources.counters.proc_scan import AttachedProcess, ProcScan, RegionKey
from ttmem.sources.counters.process_states import ProcessStates

_NOT_SIMPLY_ALIVE = {
    Owner.DEAD: ("ghost", "has died and left {size} behind; not included in any total"),
    Owner.REUSED: (
        "reused_pid",
        "has died and left {size} behind; its pid belongs to a younger process now",
    ),
    Owner.REPLACED: (
        "replaced_program",
        "has run another program since (exec) and left {size} behind; not included in any total",
    ),
    Owner.ELSEWHERE: (
        "elsewhere",
        "holds {size}; it is alive in a container; its pid on this host is unknown",
    ),
    Owner.UNVERIFIED: (
        "unverified",
        "is said to hold {size}, but it belongs to user {user}, and the file to user {owner}; "
        "not included in any total",
    ),
    Owner.ROOT: (
        "root_in_region",
        "holds {size}, as a file of user {owner} says; it belongs to root, and is counted",
    ),
}


def owner_remark(process: ProcessSample, owner: int | None, user: int | None) -> Remark:
    """On a process that is not simply alive; `owner` is the uid of the file, `user` that of the process."""
    kind, text = _NOT_SIMPLY_ALIVE[process.owner]
    size = process.counters.all
    said = text.format(
        size=human(size) if size else "an empty slot",
        owner=user_name(owner),
        user=user_name(user) or "unknown (hidden)",
    )
    return Remark(kind, f"process {process.pid} ({process.name}) {said}", process.pid, size)


def table_remarks(region: CounterRegion) -> Iterator[Remark]:
    if len(region.slots) == PROCESSES:
        yield Remark(
            "table_full",
            f"all {PROCESSES} process slots are in use: further processes are not listed, and "
            "what they hold is not known",
        )


def cross_checks(counted: Amounts, region: CounterRegion) -> Iterator[Remark]:
    """Compares the three places that hold the same figures; ttmem uses the slots of live processes.

    Differences by design are not reported. Before layout 4, the stored CB is that of the last writer alone, less
    what others had when they closed the device. Chip counters keep what a process had when it closed the device while
    others had it open; they are cleared when the last one closes it.
    """
    kinds = KINDS if region.version == 4 else KINDS[:-1]
    differences = _differences(region.totals, counted, kinds)
    if differences:
        yield Remark(
            "totals_disagree",
            f"the stored totals are not the sum of the live processes: {_listed(differences)}",
            bytes=sum(there - here for there, here in differences.values()),
        )
    differences = {} if region.chips is None else _differences(region.chips, region.totals, kinds)
    if region.references or region.version == 1:  # which does not clear those of chip 0
        differences = {name: pair for name, pair in differences.items() if pair[0] < pair[1]}
    if differences:
        yield Remark(
            "chips_disagree",
            f"the chip counters are not the stored totals: {_listed(differences)}",
            bytes=sum(there - here for there, here in differences.values()),
        )


def _differences(one: Amounts, other: Amounts, kinds: Sequence[str]) -> dict[str, tuple[int, int]]:
    if one == other:
        return {}
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in kinds}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _listed(differences: dict[str, tuple[int, int]]) -> str:
    return ", ".join(
        f"{name.upper()} {' instead of '.join(_distinct(there, here))}"
        for name, (there, here) in differences.items()
    )


def _distinct(there: int, here: int) -> tuple[str, str]:
    """In bytes if the rounded sizes would look the same."""
    texts = human(there), human(here)
    return texts if texts[0] != texts[1] else (f"{there:,} B", f"{here:,} B")


def silent_mappings(
    processes: Iterable[ProcessSample],
    file_name: str,
    key: RegionKey,
    scan: ProcScan,
    states: ProcessStates,
    read: Collection[RegionKey] = (),
) -> Iterator[Remark]:
    """On processes that map the counter file of this device and have no slot in it.

    `read` are the files that are read, here and in containers.
    """
    mapping = scan.mapped_by.get(key)
    keys = scan.keys_of.get(file_name)
    if mapping is None and keys is None:
        return
    listed = {process.pid for process in processes if not process.owner.left}
    for process in _still_alive((mapping or frozenset()) - listed, scan, states):
        yield _silent(process, "maps the region of this device")
    for other in sorted((keys or frozenset()) - {key, *read}):
        for process in _still_alive(scan.mapped_by[other], scan, states):
            yield Remark(
                "replaced_region",
                f"{_who(process)} writes to a region of this device that was deleted "
                "or replaced; what it holds cannot be read until it opens the device again",
                process.pid,
            )


def silent_processes(
    scan: ProcScan, devices: Iterable[DeviceSample], states: ProcessStates
) -> Iterator[Remark]:
    """On processes that have a card open, but no mapping and no slot; and on those there was no time for."""
    for uid, count in scan.skipped.items():
        yield Remark(
            "passed_over",
            f"the processes of user {user_name(uid)} take long to examine: what {count:,} of them map, "
            "and which cards they have open, is not known",
        )
    silent = {pid for pid, process in scan.by_pid.items() if process.cards and not process.mappings}
    if not silent:
        return
    listed = {
        process.pid
        for device in devices
        for process in device.processes
        if process.owner is not Owner.UNVERIFIED
    }
    for process in _still_alive(silent - listed, scan, states):
        yield _silent(process, f"has {', '.join(process.cards)} open")


def _still_alive(
    pids: Iterable[int], scan: ProcScan, states: ProcessStates
) -> Iterator[AttachedProcess]:
    for pid in sorted(pids):
        process = scan.by_pid[pid]
        if states.goes_on(pid, process.start_time_ns):
            yield process


def _silent(process: AttachedProcess, doing: str) -> Remark:
    if process.tracking_disabled:
        return Remark(
            "tracking_disabled",
            f"{_who(process)} {doing}, with TT_METAL_SHM_TRACKING_DISABLED=1 in its environment: "
            "what it holds is not known",
            process.pid,
        )
    hidden = " (its environment is hidden: another user's)" * (process.tracking_disabled is None)
    return Remark(
        "publishes_nothing",
        f"{_who(process)} {doing}, but has published nothing{hidden}: "
        "what it holds, if anything, is not known",
        process.pid,
    )


def _who(process: AttachedProcess) -> str:
    return f"process {process.pid} ({process.name})"
