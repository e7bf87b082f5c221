"""Temperature, power, clocks: one row for each device, and for each card that no process uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttmem.events import CardSample, Telemetry
from ttmem.snapshots import Device, Snapshot
from ttmem.views.figures import fact
from ttmem.views.ink import Line, Span, Style, faint, flow, indent, ink, paragraph
from ttmem.views.names import DeviceNames, board, model, short_pci
from ttmem.views.table import Column, Table

HOT = 0.9  # of the limit
MOST_REASONS = 8
NAMED = 8  # devices in one sentence
TITLES = {
    "temperature_c": "TEMP",
    "power_w": "POWER",
    "current_a": "CURRENT",
    "voltage_mv": "VCORE",
    "aiclk_mhz": "AICLK",
    "axiclk_mhz": "AXICLK",
    "arcclk_mhz": "ARCCLK",
    "fan_rpm": "FAN",
    "heartbeat": "HEARTBEAT",
    "firmware": "FIRMWARE",
}
UNITS = {
    "temperature_c": " °C",
    "power_w": " W",
    "current_a": " A",
    "voltage_mv": " mV",
    "aiclk_mhz": " MHz",
    "axiclk_mhz": " MHz",
    "arcclk_mhz": " MHz",
    "fan_rpm": " rpm",
}
FIRST = ("temperature_c", "power_w", "current_a", "voltage_mv", "aiclk_mhz", "heartbeat")
BELOW = tuple(name for name in TITLES if name not in FIRST)
LARGEST = {
    "temperature_c": "99.9 °C",
    "power_w": "500 W",
    "current_a": "350 A",
    "voltage_mv": "900 mV",
    "aiclk_mhz": "1350 MHz",
}
MANY = 8  # devices; more of them than that get one line each
# Voltage has a limit too, but no card comes near it.
LIMITED = ("temperature_c", "power_w", "current_a")


@dataclass(frozen=True, slots=True)
class TelemetryRow:
    name: str  # its number, or that of its card
    called: str  # the same in a sentence
    model: str
    board: str
    pci: str
    telemetry: Telemetry


def telemetry_table(snapshot: Snapshot, width: int) -> list[Line]:
    """One line for each device where it fits, else two; then why something is N/A."""
    rows = _rows(snapshot)
    if not rows:
        return []
    lines = _wide(rows, width) or _narrow(rows, width) or _flowing(rows, width)
    return [*lines, *indent(_remarks(rows, width - 1), 1)]


def telemetry_facts(telemetry: Telemetry) -> list[Line]:
    """'temp 51.3 / 75 °C', 'power 35 / 160 W', ... of one device; if nothing is known, why."""
    if telemetry.source is None:
        return [faint(f"telemetry N/A: {', '.join(sorted(set(telemetry.reasons.values())))}")]
    known = [name for name in TITLES if getattr(telemetry, name) is not None]
    return [
        (*faint(f"{TITLES[name].lower()} "), *_cell(telemetry, name, limits=True)) for name in known
    ]


def _rows(snapshot: Snapshot) -> list[TelemetryRow]:
    names = DeviceNames.of(snapshot)
    rows = []
    for device in snapshot.devices:
        if device.telemetry is not None:
            ids = [device.unique_id]
            rows.append(_row(names.some(ids), names.sentence(ids), device, device.telemetry))
    for card in snapshot.cards:
        name = "N/A" if card.number is None else f"card {card.number}"
        called = f"remote chip {card.asic_id}" if card.number is None else name
        rows.append(_row(name, called, card, card.telemetry))
    return rows


def _row(name: str, called: str, chip: Device | CardSample, sensors: Telemetry) -> TelemetryRow:
    return TelemetryRow(name, called, model(chip), board(chip), short_pci(chip) or "N/A", sensors)


def _wide(rows: Sequence[TelemetryRow], width: int) -> list[Line]:
    """All columns; limits go first, then the architecture, then the PCI address."""
    for limits, whole, pci in (
        (True, True, True),
        (True, False, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
    ):
        grid = _grid(rows, tuple(TITLES), limits=limits, whole=whole, pci=pci).fitting(width - 1)
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
        missing = ", ".join(TITLES[name] for name in BELOW)
        return indent([*grid.lines(), faint(f"a wider terminal and --json show {missing}")], 1)
    head, *body = grid.lines()
    by = grid.widths[0] + grid.gap
    out = [head]
    for line, row in zip(body, rows, strict=True):
        facts = [fact(TITLES[name].lower(), _text(row.telemetry, name)) for name in BELOW]
        known = row.telemetry.source is not None
        out += [line, *(indent(flow(facts, width - 1 - by), by) if known else ())]
    return indent(out, 1)


def _flowing(rows: Sequence[TelemetryRow], width: int) -> list[Line]:
    facts = _grid(rows, tuple(TITLES), limits=True, whole=True, pci=True).facts(width)
    return [line for row in facts for line in row]


def _grid(
    rows: Sequence[TelemetryRow],
    fields: Sequence[str],
    *,
    limits: bool,
    whole: bool = False,
    pci: bool = False,
) -> Table:
    columns = [Column("ID", right=True), Column("DEVICE"), *([Column("PCI")] if pci else [])]
    columns += [
        Column(TITLES[name], right=name != "firmware", width=_least(rows, name, limits))
        for name in fields
    ]
    lines = [
        [
            ink(row.name),
            ink(row.model if whole else row.board),
            *([faint(row.pci)] if pci else []),
            *(_cell(row.telemetry, name, limits) for name in fields),
        ]
        for row in rows
    ]
    return Table(columns, lines)


def _least(rows: Sequence[TelemetryRow], name: str, limits: bool) -> int:
    """Columns for the largest usual value, so that a growing one moves nothing."""
    shown = [_limit(row.telemetry, name, limits) for row in rows]
    of_limit = max((len(f" / {_number(one)}") for one in shown if one is not None), default=0)
    return len(LARGEST.get(name, "")) + of_limit


def _limit(sensors: Telemetry, name: str, limits: bool) -> float | None:
    known = limits and name in LIMITED and getattr(sensors, name) is not None and not sensors.stale
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
    return (*ink(_value(value, name), hot), *faint(f" / {_number(limit)}"), Span(UNITS[name]))


def _text(sensors: Telemetry, name: str) -> str:
    value = getattr(sensors, name)
    if value is None:
        return "N/A"
    if name == "heartbeat":
        return f"{value}*" if sensors.stale else str(value)
    return value if isinstance(value, str) else f"{_value(value, name)}{UNITS[name]}"


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
            values.setdefault(why, []).append(TITLES.get(name, name))
        for why, titles in values.items():
            which = "all readings" if len(titles) == len(TITLES) else ", ".join(titles)
            chips.setdefault((which, why), []).append(row.called)
    return [f"N/A: {which} of {_named(names)}: {why}" for (which, why), names in chips.items()]


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
