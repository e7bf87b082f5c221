"""`ttmem clean`: what would be done, what was done, what was left alone."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ttmem.clean import Backup, LeftAlone, Outcome, Plan, RemoveRegion, Restored, Step
from ttmem.clean.document import step_words
from ttmem.views.ink import Line, Style, indent, ink, paragraph
from ttmem.views.notes import Note
from ttmem.views.sections import section, stack

# A machine with 32 chips has 32 idle regions: one line tells of all of them.
_EMPTY_NAMED = 4
_LEFT_SHOWN = 64


def clean_lines(
    plan: Plan, outcomes: Sequence[Outcome] | None, backup: Backup | None, width: int
) -> list[Line]:
    """`outcomes` is None for a dry run."""
    if outcomes is None:
        title, steps = "WOULD DO", _steps(plan.steps)
    else:
        did = [each.did for each in outcomes if each.did is not None]
        title, steps = "DONE", _steps(did, done=True)
    failed = [
        Note("!", Style.ALARM, f"{_not_done(each)}: it {each.problem}")
        for each in outcomes or ()
        if each.problem
    ]
    shown = [line for note in (*steps, *failed) for line in note.lines(width)]
    left = [line for each in plan.left[:_LEFT_SHOWN] for line in _left(each, width)]
    if len(plan.left) > _LEFT_SHOWN:
        left += Note("-", Style.FAINT, f"and {len(plan.left) - _LEFT_SHOWN:,} more").lines(width)
    return stack(
        [
            section(title, "", shown),
            section("LEFT ALONE", "", left),
            _end(plan, outcomes, backup, width),
        ]
    )


def _not_done(outcome: Outcome) -> str:
    how_far = "not done" if outcome.did is None else "done in part only"
    return f"{how_far}: {step_words(outcome.step)}"


def undo_lines(backup: Backup, outcomes: Sequence[Restored], width: int) -> list[Line]:
    """What came back, and what did not."""
    notes = [
        Note("-", Style.GOOD, each.path)
        if each.problem is None
        else Note("!", Style.ALARM, f"not brought back: {each.path} {each.problem}")
        for each in outcomes
    ]
    lines = [line for note in notes for line in note.lines(width)]
    return stack([section("BROUGHT BACK", f"from {backup.id}", lines)])


def _steps(steps: Sequence[Step], done: bool = False) -> list[Note]:
    idle = [step for step in steps if isinstance(step, RemoveRegion) and not step.slots]
    notes = [
        Note("-", Style.PLAIN, step_words(step, done))
        for step in steps
        if len(idle) <= _EMPTY_NAMED or step not in idle
    ]
    if len(idle) > _EMPTY_NAMED:
        folder = os.path.dirname(idle[0].path)
        words = ("removed", "held", "used") if done else ("remove", "hold", "uses")
        verb, hold, uses = words
        text = f"{verb} {len(idle)} regions in {folder} that {hold} nothing and that nobody {uses}"
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
        return paragraph("Nothing was changed. To do it: add --yes", width, Style.WARN)
    if backup is None:
        return []
    return paragraph(f"To undo: ttmem clean --undo {backup.id}", width, Style.FAINT)
