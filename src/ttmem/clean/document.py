"""Plan and outcome for programs: `ttmem.clean/1`. Keys are added, never renamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttmem.clean.backup import SCHEMA, Backup
from ttmem.clean.steps import ClearSlots, Outcome, Plan, RemoveProbe, RemoveRegion, Step
from ttmem.clean.undo import Restored
from ttmem.clean.words import step_words

_KINDS = {ClearSlots: "clear_slots", RemoveRegion: "remove_region", RemoveProbe: "remove_probe"}


def plan_document(
    plan: Plan, outcomes: Sequence[Outcome] | None, backup: Backup | None
) -> dict[str, Any]:
    """`outcomes` is None for a dry run: then nothing is done, and no step has a problem."""
    problems = [outcome.problem for outcome in outcomes or ()] or [None] * len(plan.steps)
    return {
        "schema": SCHEMA,
        "dry_run": outcomes is None,
        "backup": None if backup is None else backup.id,
        "steps": [
            {**_step(step), "done": outcomes is not None and problem is None, "problem": problem}
            for step, problem in zip(plan.steps, problems, strict=True)
        ],
        "left_alone": [
            {"path": left.path, "reason": left.reason, "command": left.command}
            for left in plan.left
        ],
    }


def undo_document(backup: Backup, outcomes: Sequence[Restored]) -> dict[str, Any]:
    """What came back."""
    return {
        "schema": SCHEMA,
        "undo": backup.id,
        "files": [
            {"path": each.path, "done": each.problem is None, "problem": each.problem}
            for each in outcomes
        ],
    }


def _step(step: Step) -> dict[str, Any]:
    slots = step.slots if isinstance(step, (ClearSlots, RemoveRegion)) else ()
    return {
        "kind": _KINDS.get(type(step), "remove_socket"),
        "path": step.path,
        "text": step_words(step),
        "bytes": sum(slot.held for slot in slots),
        "processes": [{"pid": s.pid, "name": s.name, "bytes": s.held} for s in slots],
    }
