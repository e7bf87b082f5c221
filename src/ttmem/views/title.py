"""The first line: which host, when, which server, how much there is."""

from __future__ import annotations

from datetime import datetime, tzinfo

from ttmem.snapshot import Snapshot
from ttmem.views.ink import Line, Style, faint, flow, ink


def title_lines(snapshot: Snapshot, width: int, zone: tzinfo | None = None, verb: str = "ttmem") -> list[Line]:
    """One line where it fits."""
    facts = [
        ink(verb, Style.TITLE),
        ink(str(snapshot.host.get("name", "host unknown"))),
        faint(moment(snapshot.time_ns, zone)),
        *([faint(server)] if (server := _server(snapshot)) else []),
        ink(_count(len(snapshot.devices), "device", "devices")),
        ink(_count(len(snapshot.processes), "process", "processes")),
    ]
    return flow(facts, width, " · ")


def moment(time_ns: int, zone: tzinfo | None = None) -> str:
    """Date and time of day in that zone; None: the local one."""
    try:
        when = datetime.fromtimestamp(time_ns // 1_000_000_000, zone).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return "time unknown"
    return when.strftime("%Y-%m-%d %H:%M:%S %Z")


def _server(snapshot: Snapshot) -> str:
    pid, version = snapshot.host.get("server_pid"), snapshot.host.get("server_version")
    if pid is None:
        return ""
    return f"server {version} (pid {pid})" if version else f"server pid {pid}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
