"""A context as documents: only what has changed is written.

========= ============ =====================================================================================
section   key          entry
========= ============ =====================================================================================
devices   ledger index a `DeviceContext`
processes ledger index a `ProcessContext`
messages  ledger index the runtime's messages about failed allocations, by time
rest      field        every other field of a `Context`, and `order`: the indices of the processes
========= ============ =====================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ttmem.events import Amounts
from ttmem.ledger.context import Context, CounterContext
from ttmem.recording.format import numbered, section
from ttmem.snapshots.convert import read, write
from ttmem.snapshots.native_rows import Names

Document = dict[str, dict[str, Any]]
Identity = tuple[str, str, str]  # of an account: index, pid and start time, as written
SECTIONS = ("devices", "processes", "messages", "rest")
_LISTS = ("counters", "left_behind", "remarks")
_PLAIN = ("host", "watchful", "dropped", "gaps", "rejected")


def changes(before: Context | None, now: Context) -> Document:
    """The changes from the document of one context to that of the other; a removed entry is None."""
    known = before.devices if before else ()
    devices = {
        str(index): write(device)
        for index, device in enumerate(now.devices)
        if index >= len(known) or known[index] != device
    }
    old = {one.index: one for one in before.processes} if before else {}
    processes: dict[str, Any] = {
        str(one.index): write(one) for one in now.processes if old.get(one.index) != one
    }
    gone = old.keys() - {one.index for one in now.processes}
    processes.update({str(index): None for index in gone})
    rest: dict[str, Any] = {}
    for name in (*_LISTS, *_PLAIN):
        value = getattr(now, name)
        if before is None or getattr(before, name) != value:
            rest[name] = [write(one) for one in value] if name in _LISTS else value
    if before is None or [*old] != [one.index for one in now.processes]:
        rest["order"] = [one.index for one in now.processes]
    found = {"devices": devices, "processes": processes, "rest": rest}
    return {section: entries for section, entries in found.items() if entries}


def apply_changes(document: Document, changed: Any) -> None:
    """Applies changes that come from a file."""
    for name in SECTIONS:
        for key, entry in changed.get(name, {}).items():
            known = document.setdefault(name, {})
            if entry is None:
                known.pop(key, None)
            else:
                known[key] = entry


def context_from(
    document: Mapping[str, Mapping[str, Any]], positions: Mapping[int, int]
) -> Context:
    """`positions` are those of accounts that have reported more since. Any exception: the document is not a context."""
    devices, processes = document.get("devices", {}), document.get("processes", {})
    rest = dict(document["rest"])
    order = rest.pop("order")
    moved = {str(index): {"position": position} for index, position in positions.items()}
    return read(
        Context,
        {
            **rest,
            "devices": [devices[str(index)] for index in range(len(devices))],
            "processes": [processes[str(index)] | moved.get(str(index), {}) for index in order],
        },
    )


def names_from(context: Context, strings: Mapping[int, Mapping[int, str]]) -> Names:
    """The names that the numbers in ledger rows refer to; `strings` are by index."""
    processes = [process for process in context.processes if process.index >= 0]
    return Names(
        {process.index: process.pid for process in processes},
        {index: device.unique_id for index, device in enumerate(context.devices)},
        strings,
        {process.index: frozenset(process.uncounted) for process in processes if process.uncounted},
    )


class Lost(NamedTuple):
    """What is missing of one process."""

    events: int  # its part of `dropped_events`
    buffers: int  # alive, and could not be reported again


class CountedReading(NamedTuple):
    """What counters said at one reading, of processes that report no events themselves."""

    position: int
    time_ns: int
    held: Mapping[tuple[int, str], Amounts]  # by pid and unique id of the device

    @property
    def amounts(self) -> dict[str, Amounts]:
        """By device."""
        sums: dict[str, Amounts] = {}
        for (_, device), held in self.held.items():
            sums[device] = Amounts.total([sums.get(device, Amounts()), held])
        return sums


class Told:
    """What all contexts of a recording tell together. Anything invalid is left out."""

    def __init__(self) -> None:
        self.contexts = 0  # that were read
        self.devices: list[tuple[int, int, str]] = []  # (position, ledger index, unique id)
        self.counted: dict[int, dict[str, Any]] = {}  # processes that only counters told of
        self.readings: list[CountedReading] = []  # that changed something
        self.sources: set[str] = set()
        self.probed: set[int] = set()  # pids
        self.lost: dict[Identity, Lost] = {}
        self._names: dict[int, str] = {}  # by index: the ledger reuses those of devices, too
        self._pids: dict[int, int] = {}
        self._dropped_before: dict[Identity, int] = {}

    def take(self, document: Any, position: int, time_ns: int, *, initial: bool) -> None:
        """`initial`: the document is about what was alive when the recording began."""
        for index, device in numbered(section(document, "devices")):
            name = device.get("unique_id") if isinstance(device, dict) else None
            if isinstance(name, str) and self._names.get(index) != name:
                self._names[index] = name
                self.devices.append((position, index, name))
        for key, process in section(document, "processes").items():
            if isinstance(process, dict) and re.fullmatch(r"-?\d{1,9}", key):
                self._take_process(int(key), process, initial)
        rows = section(document, "rest").get("counters")
        with suppress(Exception):  # somebody else may have written it
            if rows is not None:
                held = self._held([read(CounterContext, row) for row in rows])
                if held != (self.readings[-1].held if self.readings else {}):
                    self.readings.append(CountedReading(position, time_ns, held))

    def _take_process(self, index: int, process: Mapping[str, Any], initial: bool) -> None:
        pid, sources = process.get("pid"), process.get("sources")
        pid = self._pids[index] = pid if type(pid) is int else 0
        sources = set(map(str, sources)) if isinstance(sources, list) else set()
        self.sources |= sources
        probed = "probe" in sources
        if probed:
            self.probed.add(pid)
        if index < 0:  # only counters told of it
            self.counted.setdefault(index, {**process, "devices": {}})
        dropped, overflow = process.get("dropped"), process.get("overflow")
        if index >= 0 and type(dropped) is int and type(overflow) is int:
            who = identity(index, process)
            if initial and probed:  # as in `dropped_events`
                self._dropped_before[who] = dropped
            events = dropped - self._dropped_before.get(who, 0) + (0 if probed else overflow)
            known = self.lost.get(who, Lost(0, 0))
            self.lost[who] = Lost(max(known.events, events), max(known.buffers, overflow))

    def _held(self, rows: list[CounterContext]) -> dict[tuple[int, str], Amounts]:
        held: dict[tuple[int, str], Amounts] = {}
        for row in rows:
            if row.process in self.counted:
                self.counted[row.process]["devices"][str(row.device)] = self._names.get(row.device)
        for row in rows:
            key = self._pids[row.process], self._names[row.device]
            if not row.has_events and row.amounts.all:
                held[key] = Amounts.total([held.get(key, Amounts()), row.amounts])
        return held


def identity(index: Any, process: Mapping[str, Any]) -> Identity:
    return str(index), str(process.get("pid")), str(process.get("start_time_ns"))


# A title, such as 'pid 42 (model.py --x)': at most 60 characters of a command, which may contain brackets.
_PROGRAM = re.compile(r"(pid \d+) \(.{0,60}\)")
# Directories may contain anything: what is left out goes on to the last slash in the line.
_FAILED_FOLDERS = re.compile(r"( for (?:[^,/\n]*, )?).*/(?=[^/\n]*:\d)")  # 'for OP, CALL SITE'
_FOLDERS = re.compile(
    r"(?<![\w.])(?:~|\.{1,2})?/(?:.*/)?"  # an absolute path
    r"|(?<![\w./-])(?:[\w.-]+/)+(?=[\w-]*\.[A-Za-z])"  # a relative path of a file
)
# A string is a call site with its callers, FILE:LINE FUNCTION, or a name, which may be a path and may have a slash.
_SITE_FOLDERS = re.compile(r"^(?:[~/].*/|.*/(?=[^/\n]*?(?:\.[A-Za-z]|:\d)))", re.MULTILINE)


def without_secrets(value: Any, folders: re.Pattern[str] = _FOLDERS) -> Any:
    """A document without command lines, and with only the last part of each path."""
    if isinstance(value, dict):
        return {
            key: None if key == "command" else without_secrets(entry, folders)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(entry, folders) for entry in value]
    if isinstance(value, str):
        return folders.sub("", _FAILED_FOLDERS.sub(r"\1", _PROGRAM.sub(r"\1", value)))
    return value


def strings_without_secrets(document: Any) -> Any:
    """The same for the names and call sites of processes."""
    return without_secrets(document, _SITE_FOLDERS)
