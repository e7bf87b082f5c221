"""Processes that use a device and say nothing: their memory is in no figure, and that is said.

The walk that found them is seconds old. Who has died since keeps no secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ttmem.events import DeviceSample, Owner, ProcessSample, Remark
from ttmem.process_identity import user_name
from ttmem.sources.shared_memory.holders import Holder, Holders, RegionKey
from ttmem.sources.shared_memory.lives import Lives


def silent_mappings(
    processes: Iterable[ProcessSample],
    file_name: str,
    key: RegionKey,
    holders: Holders,
    lives: Lives,
) -> Iterator[Remark]:
    """Processes that map this device's region and have no slot in it."""
    mapping = holders.mapped_by.get(key)
    keys = holders.keys_of.get(file_name)
    if mapping is None and keys is None:
        return
    listed = {process.pid for process in processes if not process.owner.left}
    for holder in _living((mapping or frozenset()) - listed, holders, lives):
        yield _silent(holder, "maps the region of this device")
    for other in sorted((keys or frozenset()) - {key}):
        for holder in _living(holders.mapped_by[other], holders, lives):
            yield Remark(
                "replaced_region",
                f"{_who(holder)} writes to a region of this device that was deleted "
                "or replaced; what it holds cannot be read until it opens the device again",
                holder.pid,
            )


def silent_holders(
    holders: Holders, devices: Iterable[DeviceSample], lives: Lives
) -> Iterator[Remark]:
    """Processes that have a card open and neither map a region nor have a slot; and those nobody had time for."""
    for uid, count in holders.passed_over.items():
        yield Remark(
            "passed_over",
            f"the processes of user {user_name(uid)} take long to look at: what {count:,} of them map, "
            "and which cards they have open, is not known",
        )
    silent = {pid for pid, holder in holders.by_pid.items() if holder.cards and not holder.mappings}
    if not silent:
        return
    listed = {
        process.pid
        for device in devices
        for process in device.processes
        if process.owner is not Owner.UNVERIFIED
    }
    for holder in _living(silent - listed, holders, lives):
        yield _silent(holder, f"has {', '.join(holder.cards)} open")


def _living(pids: Iterable[int], holders: Holders, lives: Lives) -> Iterator[Holder]:
    for pid in sorted(pids):
        holder = holders.by_pid[pid]
        if lives.goes_on(pid, holder.start_time_ns):
            yield holder


def _silent(holder: Holder, doing: str) -> Remark:
    if holder.tracking_disabled:
        return Remark(
            "tracking_disabled",
            f"{_who(holder)} {doing}, with TT_METAL_SHM_TRACKING_DISABLED=1 in its environment: "
            "what it holds is not known",
            holder.pid,
        )
    hidden = " (its environment is hidden: another user's)" * (holder.tracking_disabled is None)
    return Remark(
        "publishes_nothing",
        f"{_who(holder)} {doing}, but has published nothing{hidden}: "
        "what it holds, if anything, is not known",
        holder.pid,
    )


def _who(holder: Holder) -> str:
    return f"process {holder.pid} ({holder.name})"
