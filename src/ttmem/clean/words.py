"""Steps in words, the same on screen and in JSON."""

from __future__ import annotations

import os

from ttmem.clean.steps import ClearSlots, DeadSlot, RemoveProbe, RemoveRegion, Step
from ttmem.sizes import human

NAMED = 4


def step_words(step: Step, done: bool = False) -> str:
    """What the step does, or has done, with the exact bytes."""
    name = os.path.basename(step.path)
    if isinstance(step, ClearSlots):
        verb = "cleared" if done else "clear"
        return f"{verb} {_dead(step.slots)} in {name}; live processes keep theirs"
    verb = "removed" if done else "remove"
    if isinstance(step, RemoveRegion):
        uses = "used" if done else "uses"
        held = f", with {_dead(step.slots)}" if step.slots else ""
        return f"{verb} {name}, which nobody {uses}{held}"
    if isinstance(step, RemoveProbe):
        size = f"{human(step.size)} ({step.size:,} B)"
        return f"{verb} {name}: the probe region of dead process {step.pid}, {size}"
    return f"{verb} {step.path}: nobody {'listened' if done else 'listens'} there"


def _dead(slots: tuple[DeadSlot, ...]) -> str:
    """'6.0 MiB (6,291,456 B) of dead process 4711 (python)'."""
    total = sum(slot.held for slot in slots)
    named = ", ".join(f"{slot.pid} ({slot.name})" for slot in slots[:NAMED])
    more = f" and {len(slots) - NAMED} more" if len(slots) > NAMED else ""
    word = "process" if len(slots) == 1 else "processes"
    return f"{human(total)} ({total:,} B) of dead {word} {named}{more}"
