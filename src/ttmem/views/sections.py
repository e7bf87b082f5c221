"""Blocks of lines, one below the other, under a title line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import tzinfo

from ttmem.snapshots import Snapshot
from ttmem.views.ink import EMPTY, Line, Span, Style, clip_line, faint, flow, ink, paint
from ttmem.views.names import moment


def section(title: str, remark: str, lines: list[Line]) -> list[Line]:
    """A block under its title; nothing if there is nothing to show."""
    if not lines:
        return []
    head = ink(title, Style.TITLE)
    return [(*head, Span("  "), *faint(remark)) if remark else head, *lines]


def stack(sections: Iterable[list[Line]], airy: bool = True) -> list[Line]:
    """The blocks that are not empty, with an empty line between them if `airy`."""
    lines: list[Line] = []
    for block in sections:
        if block:
            lines += [*([EMPTY] if lines and airy else []), *block]
    return lines


def page(sections: Iterable[list[Line]], width: int, color: bool) -> str:
    """The blocks as text."""
    return paint(stack(sections), width, color)


def title_lines(
    snapshot: Snapshot, width: int, zone: tzinfo | None = None, short: bool = False
) -> list[Line]:
    """One line where it fits; `short`: one line, without the server."""
    devices = _count(len(snapshot.devices), "device", "devices")
    processes = _count(len(snapshot.processes), "process", "processes")
    if short:
        text = f" · {snapshot.host.get('name', 'host unknown')} · {devices}, {processes} · "
        when = faint(moment(snapshot.time_ns, zone))
        return [clip_line((*ink("ttmem", Style.TITLE), *ink(text), *when), width)]
    facts = [
        ink("ttmem", Style.TITLE),
        ink(str(snapshot.host.get("name", "host unknown"))),
        faint(moment(snapshot.time_ns, zone)),
        *([faint(server)] if (server := _server(snapshot)) else []),
        ink(f"{devices}, {processes}"),
    ]
    return flow(facts, width, " · ")


def _server(snapshot: Snapshot) -> str:
    server, version = snapshot.host.get("server"), snapshot.host.get("ttmem")
    pid = server.get("pid") if isinstance(server, Mapping) else None
    folder = snapshot.host.get("shared_memory")
    if pid is None:
        return f"shared memory {folder}" if folder else ""
    return f"server {version} (pid {pid})" if version else f"server pid {pid}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
