"""Plan and outcome as JSON, `ttmem.clean/1`, and the text of a step, which is the same on screen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ttmem.clean.backup import SCHEMA, Backup
from ttmem.clean.execution import Restored
from ttmem.clean.planning import ClearSlots, Outcome, Plan, RemoveProbe, RemoveRegion, Step
from ttmem.clean.slots import DeadSlot
from ttmem.sizes import human

NAMED = 4
_KINDS = {ClearSlots: "clear_slots", RemoveRegion: "remove_region", RemoveProbe: "remove_probe"}


def plan_document(
    plan: Plan, outcomes: Sequence[Outcome] | None, backup: Backup | None
) -> dict[str, Any]:
    """`outcomes` is None for a dry run."""
    dry = [Outcome(step, None) for step in plan.steps]
    return {
        "schema": SCHEMA,
        "dry_run": outcomes is None,
        "backup": None if backup is None else backup.id,
        "steps": [
            {
                **_step(each.step),
                "done": each.did == each.step,
                "did": None if each.did is None else step_text(each.did, done=True),
                "problem": each.problem,
            }
            for each in (dry if outcomes is None else outcomes)
        ],
        "left_alone": [
            {"path": left.path, "reason": left.reason, "command": left.command}
            for left in plan.left
        ],
    }


def undo_document(backup: Backup, outcomes: Sequence[Restored]) -> dict[str, Any]:
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
        "text": step_text(step),
        "bytes": sum(slot.held for slot in slots),
        "processes": [{"pid": s.pid, "name": s.name, "bytes": s.held} for s in slots],
    }


def step_text(step: Step, done: bool = False) -> str:
    """What the step does, or did, with the exact number of bytes."""
    name = os.path.basename(step.path)
    if isinstance(step, ClearSlots):
        verb = "cleared" if done else "clear"
        return f"{verb} {_dead(step.slots)} in {name}; live processes keep theirs"
    verb = "removed" if done else "remove"
    if isinstance(step, RemoveRegion):
        uses = "used" if done else "uses"
        held = f", with {_dead(step.slots)}" if step.slots else ""
        return f"{verb} {name}, which no process {uses}{held}"
    if isinstance(step, RemoveProbe):
        size = f"{human(step.size)} ({step.size:,} B)"
        return f"{verb} {name}: the probe region of dead process {step.pid}, {size}"
    return f"{verb} {step.path}: no process {'listened' if done else 'listens'} there"


def _dead(slots: tuple[DeadSlot, ...]) -> str:
    """'6.0 MiB (6,291,456 B) of dead process 4711 (python)'."""
    total = sum(slot.held for slot in slots)
    named = ", ".join(f"{slot.pid} ({slot.name})" for slot in slots[:NAMED])
    more = f" and {len(slots) - NAMED} more" if len(slots) > NAMED else ""
    word = "process" if len(slots) == 1 else "processes"
    return f"{human(total)} ({total:,} B) of dead {word} {named}{more}"
