"""Single entries of a snapshot's details (a buffer, a kernel, an event), read with care.

They come from a server that may be older or newer than this monitor: what is not as expected is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

from ttmem.snapshots import Device, Snapshot
from ttmem.views.names import DeviceNames, short_command

Entry = Mapping[str, Any]
ProgramKey = tuple[int | None, str | None, int | None]  # pid, device, program
WHOLE_LIMIT = 1 << 64  # no field of an event or a row is wider
SUMS_ONLY = "shared memory"  # what the source of such a process is called


def entries(snapshot: Snapshot, detail: str, device: str | None = None) -> list[Entry] | None:
    """The entries of a detail, of one device if named; None if the snapshot came without them."""
    found = snapshot.detail.get(detail)
    if not isinstance(found, list):
        return None
    rows: list[Entry] = [entry for entry in found if isinstance(entry, dict)]
    return rows if device is None else [row for row in rows if row.get("device") == device]


def whole(entry: Entry, key: str) -> int | None:
    """A count, an amount or an instant; None if unknown."""
    found = entry.get(key)
    known = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < WHOLE_LIMIT
    return found if known else None


def words(entry: Entry, key: str) -> str | None:
    """A text; None if unknown."""
    found = entry.get(key)
    return found if isinstance(found, str) else None


def program_key(entry: Entry) -> ProgramKey:
    """Which program on which device a kernel, a circular buffer or a program's own entry is of."""
    return whole(entry, "pid"), words(entry, "device"), whole(entry, "program")


def owners(snapshot: Snapshot) -> dict[int | None, str]:
    """The commands of the processes, by pid; without those that are unknown."""
    known = ((process.pid, process.command) for process in snapshot.processes)
    return {pid: short_command(command) for pid, command in known if command}


def device_names(devices: Iterable[Device]) -> dict[str, str]:
    """What each device is called in a cell, by unique id."""
    devices = tuple(devices)
    names = DeviceNames(devices)
    return {device.unique_id: names.some([device.unique_id]) for device in devices}


def why_none(snapshot: Snapshot, what: str, told: bool, device: str | None = None) -> str:
    """Why there is not one of them, on `device` if named, and what to do; `told`: the detail came."""
    if not snapshot.devices:
        return f"no {what}: no device has been seen yet"
    if blind := _sums_only(snapshot, device):
        return (
            f"{what} N/A: {', '.join(blind)} tells sums only;"
            " run the application with 'ttmem run' to see each one"
        )
    if ended := _ended(snapshot, device):
        return f"no {what} now: {ended} ended; `ttmem dump` lists what was never freed"
    if not told:
        return f"{what} N/A: this source does not list them; run the application with 'ttmem run'"
    return f"no {what} now"


def _sums_only(snapshot: Snapshot, device: str | None) -> list[str]:
    """The sources of the processes that have none with events."""
    there = [one.sources for one in snapshot.processes if device is None or device in one.devices]
    blind = [all(one.startswith(SUMS_ONLY) for one in sources) for sources in there]
    return sorted({one for sources in compress(there, blind) for one in sources})


def _ended(snapshot: Snapshot, device: str | None) -> str:
    """'process 41235 has', of those that died under the monitor's eyes with memory in their hands."""
    pids = [
        left.pid
        for left in snapshot.left_behind
        if not left.ghost and left.died_ns and (device is None or device in left.devices)
    ]
    if len(pids) > 1:
        return f"{len(pids):,} processes have"
    return f"process {pids[0]} has" if pids else ""
