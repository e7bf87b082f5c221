"""`ttmem diff -o page.html`: two runs on one page, with overlaid timelines and without scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import NamedTuple

from ttmem.analysis.diff import Change, Diff, Limit, MemoryDiff
from ttmem.analysis.history import MEMORIES, History, PeakInstant, held
from ttmem.sizes import human
from ttmem.views.analysis.diff import exceeded, percent, signed
from ttmem.views.analysis.peak import memory_name

COLUMNS = 600  # columns of a chart; each shows the least and the most within it
WIDTH, HEIGHT = 900, 160
TOP = 20  # rows of a table
STYLE = """
:root { --before: var(--circular); --after: var(--accent); }
body { margin: 0 auto; padding: 1.5rem; max-width: 64rem; background: var(--ground); color: var(--ink);
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
p { margin: .3rem 0; } .faint { color: var(--faint); } .alarm { color: var(--alarm); }
svg { width: 100%; height: auto; display: block; }
.before { fill: var(--before); } .after { fill: var(--after); } path { fill-opacity: .75; }
.capacity { stroke: var(--alarm); stroke-dasharray: 4 4; } .axis { stroke: var(--line); }
text { fill: var(--faint); font-size: 11px; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: .15em; margin: 0 .35em 0 1em; }
.key.before { background: var(--before); } .key.after { background: var(--after); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; } td.name { overflow-wrap: anywhere; }
@media print { body { max-width: none; } }
"""


class MemoryCurve(NamedTuple):
    """How much of one memory a device held, in columns of equal time."""

    length_ns: int
    columns: tuple[tuple[int, int], ...]  # the least and the most within each


def timelines(history: History) -> dict[str, MemoryCurve]:
    """For each memory, on the device with the highest peak."""
    highest: dict[str, PeakInstant] = {}
    for peak in history.peaks:
        if peak.memory not in highest or peak.bytes > highest[peak.memory].bytes:
            highest[peak.memory] = peak
    start = history.info.started_ns
    length = max(1, history.info.ended_ns - start)
    spans: dict[str, list[list[int] | None]] = {name: [None] * COLUMNS for name in highest}
    for _, time, device, amounts in history.recording.totals():
        at = min(COLUMNS - 1, max(0, (time - start) * COLUMNS // length))
        for name, peak in highest.items():
            if peak.device == device:
                value, span = held(amounts, name), spans[name][at]
                if span is None:
                    spans[name][at] = [value, value, value]  # least, most, last
                else:
                    span[:] = min(span[0], value), max(span[1], value), value
    return {name: MemoryCurve(length, tuple(_filled(found))) for name, found in spans.items()}


def _filled(spans: Iterable[list[int] | None]) -> Iterable[tuple[int, int]]:
    """A column without a change keeps the previous value, and every column starts with it."""
    last = 0
    for span in spans:
        least, most = (last, last) if span is None else (min(last, span[0]), max(last, span[1]))
        yield least, most
        last = last if span is None else span[2]


def comparison(
    found: Diff,
    broken: Sequence[Limit],
    runs: tuple[dict[str, MemoryCurve], dict[str, MemoryCurve]],
    by: str,
) -> str:
    """The page; `runs` are both timelines, by memory."""
    old, new = runs
    first, second = map(escape, found.names)
    parts = [
        f"<h1>{first} and {second}</h1>",
        *(f'<p class="alarm">exceeded: {escape(exceeded(limit, found))}</p>' for limit in broken),
        f'<p class="faint"><span class="key before"></span>{first} ({escape(found.boards[0])})'
        f'<span class="key after"></span>{second} ({escape(found.boards[1])})</p>',
        "<h2>Peaks</h2>",
        _table(
            [memory.peak._replace(name=memory_name(memory.memory)) for memory in found.memories],
            "memory",
        ),
    ]
    shown = {memory.memory: memory for memory in found.memories}
    for name in MEMORIES:
        if name in shown:
            parts += _memory(shown[name], old.get(name), new.get(name), by)
    if programs := [change for change in found.programs if change.by]:
        parts += ["<h2>Circular buffers of each program</h2>", _table(programs, "program")]
    parts += ["<h2>Counts</h2>", _table(found.counts, "what", plain=True)]
    style = (files("ttmem.web") / "static" / "palette.css").read_text("utf-8") + STYLE
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{first} and {second}: device memory</title><style>{style}</style></head>"
        f"<body>{''.join(parts)}</body></html>"
    )


def _memory(
    memory: MemoryDiff, old: MemoryCurve | None, new: MemoryCurve | None, by: str
) -> list[str]:
    explained = memory.explained
    share = "" if explained is None else f", {explained:.0%} of it explained by lines of code"
    title = (
        f"{memory_name(memory.memory)}: {human(memory.peak.before)} → {human(memory.peak.after)}"
    )
    rows = [each for each in memory.holders[by] if each.by]
    return [
        f"<h2>{escape(title)}</h2>",
        f'<p class="faint">{signed(memory.peak.by)} at the peak{share}</p>',
        _chart(memory, old, new),
        *([_table(rows, by)] if rows else []),
    ]


def _chart(memory: MemoryDiff, old: MemoryCurve | None, new: MemoryCurve | None) -> str:
    """Both runs from their start, at the same scale."""
    length = max(run.length_ns for run in (old, new) if run is not None)
    peak = max(1, memory.peak.before, memory.peak.after)
    capacity = max((size for size in memory.capacity if size), default=None)
    most = capacity if capacity and capacity <= 3 * peak else peak
    top = most * 1.08

    def area(run: MemoryCurve | None, kind: str) -> str:
        if run is None:
            return ""
        step = run.length_ns / length * WIDTH / COLUMNS
        heights = [HEIGHT - high / top * HEIGHT for _, high in run.columns]
        points = " ".join(f"H{at * step:.1f}V{y:.1f}" for at, y in enumerate(heights))
        end = COLUMNS * step
        return f'<path class="{kind}" d="M0 {HEIGHT}{points}H{end:.1f}V{HEIGHT}Z"/>'

    line = HEIGHT - (capacity or 0) / top * HEIGHT
    limit = (
        f'<line class="capacity" x1="0" x2="{WIDTH}" y1="{line:.1f}" y2="{line:.1f}"/>'
        f'<text x="4" y="{line + 12:.1f}">capacity {human(capacity)}</text>'
        if capacity and capacity <= most
        else ""
    )
    peaks = f"{human(memory.peak.before)} and {human(memory.peak.after)}"
    label = f"{memory_name(memory.memory)} over time: {peaks} at most"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18}" role="img" aria-label="{escape(label)}">'
        f"{area(old, 'before')}{area(new, 'after')}{limit}"
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        f'<text x="0" y="{HEIGHT + 14}">0 s</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{length / 1e9:.3g} s</text></svg>'
    )


def _table(rows: Sequence[Change], title: str, *, plain: bool = False) -> str:
    heads = "".join(f'<th class="number">{name}</th>' for name in ("before", "after", "change", ""))

    def cells(change: Change) -> str:
        numbers = (
            (f"{change.before:,}", f"{change.after:,}", f"{change.by:+,}")
            if plain
            else (human(change.before), human(change.after), signed(change.by))
        )
        figures = "".join(f'<td class="number">{each}</td>' for each in (*numbers, percent(change)))
        return (
            f'<tr>{figures}<td>{change.what}</td><td class="name">{escape(change.name)}</td></tr>'
        )

    body = "".join(map(cells, rows[:TOP]))
    more = f'<p class="faint">and {len(rows) - TOP:,} more</p>' if len(rows) > TOP else ""
    head = f"<thead><tr>{heads}<th></th><th>{escape(title)}</th></tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>{more}'
