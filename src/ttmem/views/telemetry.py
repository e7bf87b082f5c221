"""Temperature, power, clocks: one row for each device, and for each card that no process uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttmem.events import CardSample, Telemetry
from ttmem.snapshots import Device, Snapshot
from ttmem.views.figures import fact
from ttmem.views.ink import Line, Span, Style, faint, flow, indent, ink, paragraph
from ttmem.views.names import DeviceNames, board, model, short_pci
from ttmem.views.table import Column, Table, table_of

HOT = 0.9  # of the limit
MOST_REASONS = 8
NAMED = 8  # devices in one sentence


class SensorText(NamedTuple):
    """How a value of `Telemetry` is shown."""

    title: str
    unit: str = ""
    largest: str = ""  # usual value, so that a growing one moves nothing
    limited: bool = False  # voltage has a limit too, but no card comes near it


SENSORS = {
    "temperature_c": SensorText("TEMP", " °C", "99.9 °C", limited=True),
    "power_w": SensorText("POWER", " W", "500 W", limited=True),
    "current_a": SensorText("CURRENT", " A", "350 A", limited=True),
    "voltage_mv": SensorText("VCORE", " mV", "900 mV"),
    "aiclk_mhz": SensorText("AICLK", " MHz", "1350 MHz"),
    "axiclk_mhz": SensorText("AXICLK", " MHz"),
    "arcclk_mhz": SensorText("ARCCLK", " MHz"),
    "fan_rpm": SensorText("FAN", " rpm"),
    "heartbeat": SensorText("HEARTBEAT"),
    "firmware": SensorText("FIRMWARE"),
}
FIRST = [name for name, sensor in SENSORS.items() if sensor.largest or name == "heartbeat"]
BELOW = [name for name in SENSORS if name not in FIRST]
MANY = 8  # devices; more of them than that get one line each


class TelemetryRow(NamedTuple):
    name: str  # its number, or that of its card
    called: str  # the same in a sentence
    chip: Device | CardSample
    telemetry: Telemetry


def telemetry_table(snapshot: Snapshot, width: int) -> list[Line]:
    """One line for each device where it fits, else two; then why something is N/A."""
    rows = _rows(snapshot)
    if not rows:
        return []
    lines = _wide(rows, width) or _narrow(rows, width)
    if not lines:
        whole = _grid(rows, tuple(SENSORS), limits=True, whole=True, pci=True)
        lines = [line for row in whole.facts(width) for line in row]
    return [*lines, *indent(_remarks(rows, width - 1), 1)]


def telemetry_facts(telemetry: Telemetry) -> list[Line]:
    """'temp 51.3 / 75 °C', 'power 35 / 160 W', ... of one device; if nothing is known, why."""
    if telemetry.source is None:
        return [faint(f"telemetry N/A: {', '.join(sorted(set(telemetry.reasons.values())))}")]
    known = [name for name in SENSORS if getattr(telemetry, name) is not None]
    return [
        (*faint(f"{SENSORS[name].title.lower()} "), *_cell(telemetry, name, limits=True))
        for name in known
    ]


def _rows(snapshot: Snapshot) -> list[TelemetryRow]:
    names = DeviceNames.of(snapshot)
    rows = []
    for device in snapshot.devices:
        if device.telemetry is not None:
            ids = [device.unique_id]
            name, called = names.some(ids), names.sentence(ids)
            rows.append(TelemetryRow(name, called, device, device.telemetry))
    for card in snapshot.cards:
        name = called = f"card {card.number}"
        if card.number is None:
            name, called = "N/A", f"remote chip {card.asic_id}"
        rows.append(TelemetryRow(name, called, card, card.telemetry))
    return rows


def _wide(rows: Sequence[TelemetryRow], width: int) -> list[Line]:
    """All columns; limits go first, then the architecture, then the PCI address."""
    for limits, whole, pci in (
        (True, True, True),
        (True, False, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
    ):
        grid = _grid(rows, tuple(SENSORS), limits=limits, whole=whole, pci=pci).fitting(width - 1)
        if grid is not None:
            return indent(grid.lines(), 1)
    return []


def _narrow(rows: Sequence[TelemetryRow], width: int) -> list[Line]:
    """What changes most in the first line, the rest below; of many devices it is left out, and named."""
    choices = (_grid(rows, FIRST, limits=limits) for limits in (True, False))
    grid = next((fitting for one in choices if (fitting := one.fitting(width - 1))), None)
    if grid is None:
        return []
    if len(rows) > MANY:
        missing = ", ".join(SENSORS[name].title for name in BELOW)
        return indent([*grid.lines(), faint(f"a wider terminal and --json show {missing}")], 1)
    head, *body = grid.lines()
    by = grid.widths[0] + grid.gap
    out = [head]
    for line, row in zip(body, rows, strict=True):
        facts = [fact(SENSORS[name].title.lower(), _text(row.telemetry, name)) for name in BELOW]
        known = row.telemetry.source is not None
        out += [line, *(indent(flow(facts, width - 1 - by), by) if known else ())]
    return indent(out, 1)


def _grid(
    rows: Sequence[TelemetryRow],
    fields: Sequence[str],
    *,
    limits: bool,
    whole: bool = False,
    pci: bool = False,
) -> Table:
    def reading(name: str) -> Column[TelemetryRow]:
        title, least = SENSORS[name].title, _least(rows, name, limits)

        def cell(row: TelemetryRow) -> Line:
            return _cell(row.telemetry, name, limits)

        return Column(title, cell, right=name != "firmware", width=least)

    columns: list[Column[TelemetryRow]] = [
        Column("ID", lambda row: row.name, right=True),
        Column("DEVICE", lambda row: model(row.chip) if whole else board(row.chip)),
    ]
    if pci:
        columns.append(Column("PCI", lambda row: faint(short_pci(row.chip) or "N/A")))
    return table_of([*columns, *map(reading, fields)], rows)


def _least(rows: Sequence[TelemetryRow], name: str, limits: bool) -> int:
    """Columns for the largest usual value, so that a growing one moves nothing."""
    shown = [_limit(row.telemetry, name, limits) for row in rows]
    of_limit = max((len(f" / {_number(one)}") for one in shown if one is not None), default=0)
    return len(SENSORS[name].largest) + of_limit


def _limit(sensors: Telemetry, name: str, limits: bool) -> float | None:
    known = (
        limits
        and SENSORS[name].limited
        and getattr(sensors, name) is not None
        and not sensors.stale
    )
    return getattr(sensors.limits, name) if known else None


def _cell(sensors: Telemetry, name: str, limits: bool) -> Line:
    value = getattr(sensors, name)
    limit = _limit(sensors, name, limits)
    if value is None:
        return faint("N/A")
    if sensors.stale:
        return ink(_text(sensors, name), Style.BAD if name == "heartbeat" else Style.FAINT)
    if limit is None:
        return ink(_text(sensors, name))
    hot = Style.BAD if value >= limit else Style.WARN if value >= HOT * limit else Style.PLAIN
    return (
        *ink(_value(value, name), hot),
        *faint(f" / {_number(limit)}"),
        Span(SENSORS[name].unit),
    )


def _text(sensors: Telemetry, name: str) -> str:
    value = getattr(sensors, name)
    if value is None:
        return "N/A"
    if name == "heartbeat":
        return f"{value}*" if sensors.stale else str(value)
    return value if isinstance(value, str) else f"{_value(value, name)}{SENSORS[name].unit}"


def _value(value: float, name: str) -> str:
    return f"{value:.1f}" if name == "temperature_c" else _number(value)


def _number(value: float) -> str:
    """At most one decimal: these sensors are no more precise."""
    return str(value) if isinstance(value, int) else f"{value:.1f}".removesuffix(".0")


def _remarks(rows: Sequence[TelemetryRow], width: int) -> list[Line]:
    """What is stale, and each reason with the values and the devices that it is of."""
    said = [*_stale(rows), *_reasons(rows)]
    more = len(said) - MOST_REASONS
    if more > 0:
        said = [*said[:MOST_REASONS], f"and {more:,} more reasons; --json lists all"]
    return [line for text in said for line in paragraph(text, width, Style.FAINT)]


def _stale(rows: Sequence[TelemetryRow]) -> list[str]:
    still = [row for row in rows if row.telemetry.stale]
    if not still:
        return []
    least = min(row.telemetry.unchanged_s or 0.0 for row in still)
    return [
        f"* stale: the heartbeat of {_named([row.called for row in still])} has not changed for"
        f" {least:.0f} s or longer, so the other values may be old"
    ]


def _reasons(rows: Sequence[TelemetryRow]) -> list[str]:
    chips: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        values: dict[str, list[str]] = {}
        for name, why in row.telemetry.reasons.items():
            values.setdefault(why, []).append(SENSORS[name].title if name in SENSORS else name)
        for why, titles in values.items():
            which = "all readings" if len(titles) == len(SENSORS) else ", ".join(titles)
            chips.setdefault((which, why), []).append(row.called)
    return [f"N/A: {which} of {_named(names)}: {why}" for (which, why), names in chips.items()]


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
