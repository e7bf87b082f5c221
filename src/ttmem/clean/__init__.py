"""Removes what dead processes left behind, and can restore it."""

from ttmem.clean.backup import Backup, Backups
from ttmem.clean.execution import Restored, carry_out, undo
from ttmem.clean.planning import (
    ClearSlots,
    LeftAlone,
    Outcome,
    Plan,
    RemoveProbe,
    RemoveRegion,
    RemoveSocket,
    Scope,
    Step,
    make_plan,
)
from ttmem.clean.slots import DeadSlot

__all__ = [
    "Backup",
    "Backups",
    "ClearSlots",
    "DeadSlot",
    "LeftAlone",
    "Outcome",
    "Plan",
    "RemoveProbe",
    "RemoveRegion",
    "RemoveSocket",
    "Restored",
    "Scope",
    "Step",
    "carry_out",
    "make_plan",
    "undo",
]
