"""The first line: which host, when, which source, how much there is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from ttmem.snapshots import Snapshot
from ttmem.views.ink import Line, Style, clip_line, faint, flow, ink
from ttmem.views.moments import moment


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
