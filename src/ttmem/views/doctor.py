"""`ttmem doctor` (what is on this host, then what is wrong, worst first) and `ttmem clean` as text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ttmem.clean.backup import Backup
from ttmem.clean.document import step_text
from ttmem.clean.execution import Restored
from ttmem.clean.planning import LeftAlone, Outcome, Plan, RemoveRegion, Step
from ttmem.doctor import HostFacts, ProbeFacts, RegionFacts, SocketFacts, SocketState
from ttmem.doctor.examination import closed_by_user, closed_text
from ttmem.doctor.finding import Finding, Level
from ttmem.events import COUNTERS_CLOSED
from ttmem.sizes import human, several
from ttmem.views.ink import Line, Style, faint, flow, indent, ink, paragraph
from ttmem.views.names import pids_text
from ttmem.views.notes import Note, note_lines
from ttmem.views.table import page, section

T = TypeVar("T")
_SIGNS = {
    Level.ERROR: ("error", Style.ALARM),
    Level.WARNING: ("warning", Style.WARN),
    Level.INFO: ("info", Style.FAINT),
}
_BY = 10  # columns of the widest sign and its margins
NAMED = 6  # pids in one line
SHOWN = 16  # regions, one under the other


def doctor_sheet(facts: HostFacts, findings: Sequence[Finding], *, width: int, color: bool) -> str:
    parts = {
        "card": _cards(facts),
        "ttnn": _runtimes(facts),
        "region": _regions(facts),
        "probe": _probes(facts),
        "inside": _containers(facts),
        "server": [_socket(each) for each in facts.sockets],
    }
    here = [line for label, rows in parts.items() for line in _labelled(label, rows, width)]
    wrong = [
        line
        for finding, below in zip(findings, [*findings[1:], None], strict=False)
        for line in _finding(finding, below, width)
    ]
    return page(
        [section("HOST", "", here), section("FINDINGS", "", wrong), [_verdict(findings)]],
        width,
        color,
    )


def _labelled(label: str, facts: Sequence[Sequence[Line]], width: int) -> list[Line]:
    out: list[Line] = []
    for fact in facts:
        first = faint(f" {label}") if not out else ()
        out += indent(flow(fact, width - _BY), _BY, first)
    return out


def _cards(facts: HostFacts) -> list[list[Line]]:
    driver = ink(f"driver {facts.driver}") if facts.driver else faint("no driver")
    if not facts.cards:
        return [[faint("none"), driver]]
    rows = []
    for card in facts.cards:
        where = [faint(f"PCI {card.pci or 'N/A'}"), faint(card.node or "no device file")]
        rows.append([ink(card.name, Style.LABEL), ink(card.board or "board N/A"), *where])
    return [*rows, [driver]]


def _runtimes(facts: HostFacts) -> list[list[Line]]:
    if not facts.runtimes:
        return [[faint("no process has it loaded")]]
    return [
        [
            ink(use.version or "version N/A", Style.LABEL),
            ink(pids_text(use.pids, NAMED)),
            faint(use.path),
        ]
        for use in facts.runtimes
    ]


def _regions(facts: HostFacts) -> list[list[Line]]:
    folder = facts.folder
    space = faint(f"{human(folder.free)} of {human(folder.size)} free in {folder.path}")
    used = [each for each in facts.regions if each.sample.processes or each.mapped_by]
    rows = _shown(used, _region)
    idle = len(facts.regions) - len(used)
    if idle:
        rows.append([ink(f"{idle:,} idle"), faint("they hold nothing, and no process maps them")])
    closed = (each for each in facts.remarks if each.kind == COUNTERS_CLOSED)
    rows += [[ink(each.text.split(";")[0], Style.WARN)] for each in closed]
    return [*(rows or [[faint("none")]]), [space]]


def _region(region: RegionFacts) -> Iterator[Line]:
    sample = region.sample
    live = sum(process.owner.counts for process in sample.processes)
    yield ink(sample.unique_id, Style.LABEL)
    yield ink(f"layout {sample.layout}")
    yield ink(
        f"{human(sample.in_use.all)} of {several(live, 'process', 'processes')}"
        if live
        else "not in use"
    )
    if dead := sum(process.owner.left for process in sample.processes):
        yield ink(f"{dead} dead", Style.WARN)
    if unverified := len(sample.processes) - live - dead:
        yield ink(f"{unverified} unverified", Style.WARN)
    yield faint(f"{region.size:,} B, mode {region.mode:04o} of {region.user or 'N/A'}")
    yield faint(
        f"mapped by {pids_text(region.mapped_by, NAMED)}" if region.mapped_by else "not mapped"
    )


def _probes(facts: HostFacts) -> list[list[Line]]:
    live = [each for each in facts.probes if each.alive and not each.closed]
    rows = _shown(live, _probe)
    dead = [each.size for each in facts.probes if not each.alive and not each.closed]
    if dead:
        whose = "region of a dead process" if len(dead) == 1 else "regions of dead processes"
        rows.append([ink(f"{len(dead):,} {whose}"), faint(human(sum(dead)))])
    for user, closed in closed_by_user(facts).items():
        rows.append([ink(closed_text(user, closed), Style.WARN)])
    return rows


def _containers(facts: HostFacts) -> list[list[Line]]:
    read = [one for one in facts.containers if one.problem is None]
    return _shown(
        read,
        lambda one: [
            ink(f"a container of {several(len(one.pids), 'process', 'processes')}", Style.LABEL),
            ink(f"{one.counters} of ttnn, {one.regions} of the probe"),
            faint(one.path),
        ],
    )


def _shown(found: Sequence[T], row: Callable[[T], Iterable[Line]]) -> list[list[Line]]:
    """A row for each, and one for those that are not shown."""
    rows = [list(row(each)) for each in found[:SHOWN]]
    hidden = len(found) - SHOWN
    return [*rows, [faint(f"and {hidden:,} more (--json has all)")]] if hidden > 0 else rows


def _probe(probe: ProbeFacts) -> Iterator[Line]:
    yield ink(f"pid {probe.pid}", Style.LABEL)
    yield faint(f"{human(probe.size)} of {probe.user or 'N/A'}")
    if probe.problem is not None:
        yield ink(
            "names a process of another user" if probe.foreign else "cannot be read", Style.WARN
        )
        return
    yield ink("tracking" if probe.tracking else "tracking is off")
    seen = sum(there for _, there in probe.features)
    total = len(probe.features)
    yield faint(f"sees {seen} of {total} features" if total else "no device opened yet")


def _socket(socket: SocketFacts) -> list[Line]:
    if socket.state is not SocketState.SERVED:
        word = "none" if socket.state is SocketState.ABSENT else socket.state.value
        return [ink(word), faint(f"at {socket.path}")]
    pid = "N/A" if socket.server_pid is None else str(socket.server_pid)
    return [
        ink(f"pid {pid}", Style.LABEL),
        faint(f"at {socket.path}, of {socket.user or 'N/A'}"),
        faint(socket.server or "command N/A"),
    ]


def _finding(finding: Finding, below: Finding | None, width: int) -> list[Line]:
    """Consecutive findings with the same remedy show it once, after the last of them."""
    word, style = _SIGNS[finding.level]
    space = width - _BY
    lines = paragraph(finding.text, space)
    if below is None or _remedy(finding) != _remedy(below):
        if finding.command is not None:
            command = paragraph(finding.command, space - 2, Style.GOOD)
            lines += indent(command, 2, ink("$", Style.FAINT))
        if finding.advice is not None:
            lines += paragraph(finding.advice, space, Style.FAINT)
    return indent(lines, _BY, ink(f" {word}", style))


def _remedy(finding: Finding) -> tuple[Level, str | None, str | None]:
    return finding.level, finding.command, finding.advice


def _verdict(findings: Sequence[Finding]) -> Line:
    wrong = [finding for finding in findings if finding.level > Level.INFO]
    if not wrong:
        return ink("Nothing is wrong.", Style.GOOD)
    errors = sum(finding.level is Level.ERROR for finding in wrong)
    counts = [(errors, "error"), (len(wrong) - errors, "warning")]
    words = [several(count, word) for count, word in counts if count]
    return ink(f"{' and '.join(words)}.", Style.ALARM if errors else Style.WARN)


# A machine with 32 chips has 32 idle regions, which share one line.
_EMPTY_NAMED = 4
_LEFT_SHOWN = 64


def clean_text(
    plan: Plan,
    outcomes: Sequence[Outcome] | None,
    backup: Backup | None,
    *,
    width: int,
    color: bool,
) -> str:
    """`outcomes` is None for a dry run."""
    if outcomes is None:
        title, steps = "WOULD DO", _steps(plan.steps)
    else:
        did = [each.did for each in outcomes if each.did is not None]
        title, steps = "DONE", _steps(did, done=True)
    failed = [Note("!", Style.ALARM, _not_done(each)) for each in outcomes or () if each.problem]
    left = [line for each in plan.left[:_LEFT_SHOWN] for line in _left(each, width)]
    if len(plan.left) > _LEFT_SHOWN:
        left += Note("-", Style.FAINT, f"and {len(plan.left) - _LEFT_SHOWN:,} more").lines(width)
    return page(
        [
            section(title, "", note_lines([*steps, *failed], width)),
            section("LEFT ALONE", "", left),
            _end(plan, outcomes, backup, width),
        ],
        width,
        color,
    )


def _not_done(outcome: Outcome) -> str:
    how_far = "not done" if outcome.did is None else "done in part only"
    return f"{how_far}: {step_text(outcome.step)}: it {outcome.problem}"


def undo_text(backup: Backup, outcomes: Sequence[Restored], *, width: int, color: bool) -> str:
    notes = [
        Note("-", Style.GOOD, each.path)
        if each.problem is None
        else Note("!", Style.ALARM, f"not restored: {each.path} {each.problem}")
        for each in outcomes
    ]
    lines = note_lines(notes, width)
    return page([section("RESTORED", f"from {backup.id}", lines)], width, color)


def _steps(steps: Sequence[Step], done: bool = False) -> list[Note]:
    idle = [step for step in steps if isinstance(step, RemoveRegion) and not step.slots]
    notes = [
        Note("-", Style.PLAIN, step_text(step, done))
        for step in steps
        if len(idle) <= _EMPTY_NAMED or step not in idle
    ]
    if len(idle) > _EMPTY_NAMED:
        folder = os.path.dirname(idle[0].path)
        remove, hold, uses = ("removed", "held", "used") if done else ("remove", "hold", "uses")
        text = f"{remove} {len(idle)} regions in {folder} that {hold} nothing and that no process {uses}"
        notes.append(Note("-", Style.PLAIN, text))
    return notes


def _left(left: LeftAlone, width: int) -> list[Line]:
    lines = Note("-", Style.FAINT, left.reason).lines(width)
    if left.command is not None:
        lines += indent(paragraph(left.command, width - 5, Style.GOOD), 5, ink("   $", Style.FAINT))
    return lines


def _end(
    plan: Plan, outcomes: Sequence[Outcome] | None, backup: Backup | None, width: int
) -> list[Line]:
    if not plan.steps:
        return [ink("Nothing to clean.", Style.GOOD)]
    if outcomes is None:
        return paragraph("Nothing was changed. Add --yes to do it.", width, Style.WARN)
    if backup is None:
        return []
    return paragraph(f"To undo: ttmem clean --undo {backup.id}", width, Style.FAINT)
