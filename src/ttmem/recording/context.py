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
from typing import Any

from ttmem.ledger.context import Context
from ttmem.snapshots.convert import read, write
from ttmem.snapshots.native_rows import Names

Document = dict[str, dict[str, Any]]
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
    rest: dict[str, Any] = {
        name: [write(one) for one in getattr(now, name)]
        for name in _LISTS
        if before is None or getattr(before, name) != getattr(now, name)
    }
    for name in _PLAIN:
        if before is None or getattr(before, name) != getattr(now, name):
            rest[name] = getattr(now, name)
    if before is None or [*old] != [one.index for one in now.processes]:
        rest["order"] = [one.index for one in now.processes]
    found = {"devices": devices, "processes": processes, "rest": rest}
    return {section: entries for section, entries in found.items() if entries}


def apply_changes(document: Document, changed: Any) -> None:
    """Applies changes that come from a file."""
    for section in SECTIONS:
        for key, entry in changed.get(section, {}).items():
            if entry is None:
                document.setdefault(section, {}).pop(key, None)
            else:
                document.setdefault(section, {})[key] = entry


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
