"""Removes what dead processes left behind, and can bring it back."""

from ttmem.clean.acting import carry_out
from ttmem.clean.backup import Backup, Backups
from ttmem.clean.planning import Scope, make_plan
from ttmem.clean.steps import (
    ClearSlots,
    DeadSlot,
    LeftAlone,
    Outcome,
    Plan,
    RemoveProbe,
    RemoveRegion,
    RemoveSocket,
    Step,
)
from ttmem.clean.undo import Restored, undo

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
