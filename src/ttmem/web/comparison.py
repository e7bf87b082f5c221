"""`ttmem diff -o page.html`: two runs on one page, their timelines above one another. It needs no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from typing import NamedTuple

from ttmem.analysis.diff import Change, Diff, Limit, MemoryDiff
from ttmem.analysis.history import MEMORIES, History, PeakInstant, held
from ttmem.sizes import human
from ttmem.views.diff import percent, signed
from ttmem.views.peak import memory_name

COLUMNS = 600  # of a chart; of what happens within one, the least and the most are drawn
WIDTH, HEIGHT = 900, 160
TOP = 20  # rows of a table
STYLE = """
:root { color-scheme: light dark; --ground: #fbfbfa; --ink: #23272e; --faint: #6b7280; --line: #e6e7ea;
  --before: #98a2b3; --after: #3b6fb6; --alarm: #c2413a; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181d; --ink: #e3e6ea; --faint: #949ca8; --line: #2b313a;
  --before: #6c7686; --after: #7aa7e0; --alarm: #ef7d74; } }
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


class Timeline(NamedTuple):
    """What one device held of one memory, in columns of equal time."""

    length_ns: int
    columns: tuple[tuple[int, int], ...]  # the least and the most within each


def timelines(history: History) -> dict[str, Timeline]:
    """Of each memory, on the device where its peak was highest."""
    highest: dict[str, PeakInstant] = {}
    for peak in history.peaks:
        if peak.memory not in highest or peak.bytes > highest[peak.memory].bytes:
            highest[peak.memory] = peak
    start = history.info.started_ns
    length = max(1, history.info.ended_ns - start)
    spans: dict[str, list[list[int] | None]] = {name: [None] * COLUMNS for name in highest}
    for _, time, device, amounts in history.totals():
        at = min(COLUMNS - 1, max(0, (time - start) * COLUMNS // length))
        for name, peak in highest.items():
            if peak.device == device:
                value, span = held(amounts, name), spans[name][at]
                if span is None:
                    spans[name][at] = [value, value, value]  # least, most, last
                else:
                    span[:] = min(span[0], value), max(span[1], value), value
    return {name: Timeline(length, tuple(_filled(found))) for name, found in spans.items()}


def _filled(spans: Iterable[list[int] | None]) -> Iterable[tuple[int, int]]:
    """A column in which nothing changed has what was held before; so has the beginning of any other."""
    last = 0
    for span in spans:
        least, most = (last, last) if span is None else (min(last, span[0]), max(last, span[1]))
        yield least, most
        last = last if span is None else span[2]


def comparison(
    found: Diff,
    broken: Sequence[Limit],
    runs: tuple[dict[str, Timeline], dict[str, Timeline]],
    by: str,
) -> str:
    """The page. `runs` are the timelines of both, by memory."""
    old, new = runs
    first, second = map(escape, found.names)
    parts = [
        f"<h1>{first} and {second}</h1>",
        *(f'<p class="alarm">exceeded: {escape(one.text)}</p>' for one in broken),
        f'<p class="faint"><span class="key before"></span>{first} ({escape(found.boards[0])})'
        f'<span class="key after"></span>{second} ({escape(found.boards[1])})</p>',
        "<h2>Peaks</h2>",
        _table(
            [one.peak._replace(name=memory_name(one.memory)) for one in found.memories], "memory"
        ),
    ]
    shown = {one.memory: one for one in found.memories}
    for name in MEMORIES:
        if name in shown:
            parts += _memory(shown[name], old.get(name), new.get(name), by)
    if programs := [one for one in found.programs if one.by]:
        parts += ["<h2>Circular buffers of each program</h2>", _table(programs, "program")]
    parts += ["<h2>Counts</h2>", _table(found.counts, "what", plain=True)]
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{first} and {second}: device memory</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>"
    )


def _memory(one: MemoryDiff, old: Timeline | None, new: Timeline | None, by: str) -> list[str]:
    explained = one.explained
    share = "" if explained is None else f", {explained:.0%} of it explained by lines of code"
    title = f"{memory_name(one.memory)}: {human(one.peak.before)} → {human(one.peak.after)}"
    rows = [each for each in one.holders[by] if each.by]
    return [
        f"<h2>{escape(title)}</h2>",
        f'<p class="faint">{signed(one.peak.by)} at the peak{share}</p>',
        _chart(one, old, new),
        *([_table(rows, by)] if rows else []),
    ]


def _chart(one: MemoryDiff, old: Timeline | None, new: Timeline | None) -> str:
    """Both runs from their start, in the same scale."""
    length = max(run.length_ns for run in (old, new) if run is not None)
    peak = max(1, one.peak.before, one.peak.after)
    capacity = max((size for size in one.capacity if size), default=None)
    most = capacity if capacity and capacity <= 3 * peak else peak
    top = most * 1.08

    def area(run: Timeline | None, kind: str) -> str:
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
    label = f"{memory_name(one.memory)} over time: {human(one.peak.before)} and {human(one.peak.after)} at most"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18}" role="img" aria-label="{escape(label)}">'
        f"{area(old, 'before')}{area(new, 'after')}{limit}"
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>'
        f'<text x="0" y="{HEIGHT + 14}">0 s</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{length / 1e9:.3g} s</text></svg>'
    )


def _table(rows: Sequence[Change], title: str, *, plain: bool = False) -> str:
    heads = "".join(f'<th class="number">{name}</th>' for name in ("before", "after", "change", ""))

    def cells(one: Change) -> str:
        numbers = (
            (f"{one.before:,}", f"{one.after:,}", f"{one.by:+,}")
            if plain
            else (human(one.before), human(one.after), signed(one.by))
        )
        figures = "".join(f'<td class="number">{each}</td>' for each in (*numbers, percent(one)))
        return f'<tr>{figures}<td>{one.what}</td><td class="name">{escape(one.name)}</td></tr>'

    body = "".join(map(cells, rows[:TOP]))
    more = f'<p class="faint">and {len(rows) - TOP:,} more</p>' if len(rows) > TOP else ""
    head = f"<thead><tr>{heads}<th></th><th>{escape(title)}</th></tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>{more}'
