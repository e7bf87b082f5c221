"""Many hosts as tables: the same columns for `ttmem ps` and the monitor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import tzinfo
from functools import partial
from operator import attrgetter
from typing import Any

from ttmem.fleet.rows import Fleet, FleetDevice, FleetHost, FleetProcess, HostView
from ttmem.sizes import several
from ttmem.views.figures import Units, of_limit
from ttmem.views.ink import EMPTY, Line, Style, faint, flow, ink, pad, paint, paragraph
from ttmem.views.meter import meter
from ttmem.views.names import moment, time_of_day
from ttmem.views.table import ListColumn, figure, label, number, phrase, row_lines

SHOWN = 20  # devices in the table of `ttmem ps`; JSON has more
METER = 12
PARTS = 1_000_000  # of a share, for bars that count
NOT_RECORDED = (
    "the recording rules of ttmem are not installed there, which makes this slow for hundreds of hosts:"
    " see docs/fleet.md"
)
NO_PROCESSES = "no figures of processes: its exporter runs without --per-process"


def _share(title: str, get: str) -> ListColumn[Any]:
    def draw(row: Any, width: int) -> Line:
        share = getattr(row, get)
        if share is None:
            return pad(faint("N/A"), width, right=True)
        return meter(round(share * PARTS), PARTS, width)

    column = figure(title, attrgetter(get), "{:.0%}".format, width=METER)
    return replace(column, draw=draw)


def _of_limit(title: str, memory: str, units: Units, rank: int) -> ListColumn[Any]:
    """'4.5 GiB / 12.0 GiB' of a memory, sorted by what is used."""
    used = attrgetter(f"{memory}_used")
    capacity = attrgetter(f"{memory}_capacity")
    return number(title, lambda row: of_limit(units, used(row), capacity(row)), used, rank=rank)


def boards_text(boards: Mapping[str, int]) -> str | None:
    """'32 x galaxy', '4 x p150, 2 x unknown'."""
    if not boards:
        return None
    return ", ".join(f"{count} x {name or 'unknown'}" for name, count in sorted(boards.items()))


def stale_text(host: FleetHost, now_ns: int, zone: tzinfo | None) -> str | None:
    """'stale since 14:03:11: no answer', 'no recent figures: no answer'; with the date if that is half a day ago."""
    if host.stale is None:
        return None
    if host.seen_ns is None:
        return f"no recent figures: {host.stale}"
    ago = now_ns - host.seen_ns
    when = time_of_day if ago < 12 * 3600 * 1_000_000_000 else moment
    return f"stale since {when(host.seen_ns, zone)}: {host.stale}"


def _state(now_ns: int, zone: tzinfo | None, host: FleetHost) -> Line:
    if said := stale_text(host, now_ns, zone):
        return ink(said, Style.ALARM)
    facts = [f"{several(host.failed, 'allocation')} failed"] if host.failed else []
    facts += [f"{host.anomalies} to look at"] if host.anomalies else []
    return ink(", ".join(facts), Style.WARN) if facts else ink("up", Style.GOOD)


def host_columns(
    now_ns: int, zone: tzinfo | None = None, units: Units = Units.BINARY
) -> list[ListColumn[FleetHost]]:
    return [
        ListColumn(
            "state",
            partial(_state, now_ns, zone),
            lambda host: host.badness,
            width=31,
            grow=4,
            most=70,
            largest_first=True,
        ),
        phrase("host", lambda host: host.name, width=16, grow=1),
        _share("L1 fullest", "l1_share"),
        _share("DRAM fullest", "dram_share"),
        _of_limit("DRAM", "dram", units, 3),
        figure("devices", lambda host: host.devices, rank=2),
        figure("processes", lambda host: host.processes, rank=1),
        phrase("boards", lambda host: boards_text(host.boards), width=12, grow=1, rank=4),
    ]


def device_columns(
    units: Units = Units.BINARY, *, with_host: bool = True
) -> list[ListColumn[FleetDevice]]:
    host: ListColumn[FleetDevice] = phrase("host", lambda one: one.host, width=16, grow=2)
    return [
        *([host] if with_host else []),
        phrase("device", _device_name, width=18),
        _share("L1", "l1_share"),
        _share("DRAM", "dram_share"),
        _of_limit("L1 used", "l1", units, 2),
        _of_limit("DRAM used", "dram", units, 1),
        figure("to look at", lambda one: one.anomalies, rank=3),
        phrase("unique id", lambda one: one.unique_id, width=20, rank=4),
        label("celsius", lambda one: one.temperature_c, "{:.0f}".format, rank=5),
        label("watts", lambda one: one.power_w, "{:.0f}".format, rank=6),
    ]


def _device_name(device: FleetDevice) -> str:
    parts = (device.id or "?", device.position, device.board or "unknown board")
    return " ".join(part for part in parts if part)


def process_columns(units: Units = Units.BINARY) -> list[ListColumn[FleetProcess]]:
    def of(kind: str, rank: int = 0) -> ListColumn[FleetProcess]:
        title = kind.upper()
        return figure(title, lambda row: int(getattr(row, kind)), units.text, width=10, rank=rank)

    return [
        phrase("program", lambda row: row.program, width=16, grow=2),
        phrase("user", lambda row: row.user, width=8, grow=1),
        of("dram"),
        of("l1"),
        of("cb", 2),
        of("l1_small", 5),
        of("trace", 4),
        figure("devices", lambda row: row.devices, rank=1),
        phrase("pod or container", _pod, width=16, grow=1, rank=3),
        phrase("job", lambda row: row.job or "-", width=6, rank=3),
    ]


def _pod(row: FleetProcess) -> str:
    if row.pod:
        return f"{row.namespace or '?'}/{row.pod}"
    return (row.container or "-")[:12]


# -- text ------------------------------------------------------------------------------------------------------------


def fleet_title(fleet: Fleet, zone: tzinfo | None = None) -> list[Line]:
    devices = sum(host.devices or 0 for host in fleet.hosts)
    facts = [several(len(fleet.hosts), "host"), several(devices, "device")]
    return [
        ink("ttmem fleet", Style.TITLE),
        ink(moment(fleet.time_ns, zone)),
        ink(", ".join(facts)),
        *([ink(f"{fleet.stale} stale", Style.ALARM)] if fleet.stale else []),
        faint(fleet.source),
    ]


def host_facts(view: HostView, zone: tzinfo | None = None) -> list[Line]:
    host = view.host
    state = stale_text(host, view.time_ns, zone)
    return [
        ink(host.name, Style.TITLE),
        *([ink(f"{state}; these are its last figures", Style.ALARM)] if state else []),
        *([ink(moment(host.seen_ns, zone))] if not state and host.seen_ns is not None else []),
        ink(boards_text(host.boards) or "no device in use"),
        *(
            [ink(several(host.processes, "process", "processes"))]
            if host.processes is not None
            else []
        ),
        *(
            [ink(f"{several(host.failed, 'allocation')} failed in the last hour", Style.WARN)]
            if host.failed
            else []
        ),
    ]


def render_fleet(
    found: Fleet | HostView, *, width: int, color: bool, zone: tzinfo | None = None
) -> str:
    if isinstance(found, HostView):
        return paint(_host_lines(found, width, zone), width, color)
    return paint(_fleet_lines(found, width, zone), width, color)


def _fleet_lines(fleet: Fleet, width: int, zone: tzinfo | None) -> list[Line]:
    lines = [*flow(fleet_title(fleet, zone), width), EMPTY]
    lines += row_lines(host_columns(fleet.time_ns, zone), fleet.hosts, width)
    if fleet.worst:
        lines += [EMPTY, ink("Fullest devices", Style.TITLE)]
        lines += row_lines(device_columns(), fleet.worst[:SHOWN], width)
    if not fleet.recorded:
        lines += [EMPTY, *paragraph(NOT_RECORDED, width, Style.FAINT)]
    return lines


def _host_lines(view: HostView, width: int, zone: tzinfo | None) -> list[Line]:
    lines = [*flow(host_facts(view, zone), width), EMPTY]
    lines += row_lines(device_columns(with_host=False), view.devices, width)
    lines.append(EMPTY)
    if view.processes is None:
        lines += paragraph(NO_PROCESSES, width, Style.FAINT)
    else:
        lines += row_lines(process_columns(), view.processes, width)
    return lines
