"""What is known about a device that only its counters report.

Compute cores, allocatable L1 and the kernel ring depend on how the device was opened, which nothing publishes. They
stay unknown; what they would be with the defaults is given separately.
"""

from __future__ import annotations

from functools import lru_cache

from ttmem.events import DeviceDeclaration
from ttmem.fast_dataclasses import replace
from ttmem.hw.boards import Board
from ttmem.hw.discovery import Discovered
from ttmem.hw.l1_map import NEWEST
from ttmem.hw.spec import device_spec
from ttmem.sizes import human

_NOT_PUBLISHED = "L1 depends on dispatch_core_config and worker_l1_size, which are not published"
_SHARED = "DRAM includes the trace region"
_USUAL = "harvesting as usual for the board"


def declaration(found: Discovered, number: int, logical_id: int) -> DeviceDeclaration:
    spec = found.spec
    ttnn = found.environment.ttnn if found.environment else None
    full = DeviceDeclaration.from_spec(
        spec, logical_id, str(number), found.pci, remote=found.remote, position=found.position
    )
    note = "; ".join(part for part in (spec.note, _l1_note(found, ttnn), _SHARED) if part)
    declared = replace(
        full,
        grid=None,
        l1_banks=None,
        l1_total=None,
        l1_capacity=None,
        l1_capacity_default=spec.l1_capacity,
        l1_bank_size=None,
        l1_small_bank_size=None,
        ring_base=full.ring_base if ttnn else None,
        cb_base=None,
        trace_bank_size=None,
        ring_per_core=None,
        ring_capacity=None,
        note=note,
    )
    board = found.board
    if board is None:
        return declared
    l1_most = _l1_most(board)
    if board.note is None:
        return replace(declared, l1_most=l1_most, note=f"{_USUAL}; {note}")
    return replace(
        declared,
        l1_most=l1_most,
        l1_capacity_default=None,
        note=f"{_USUAL}, but {board.note}; {note}",
    )


@lru_cache(maxsize=64)
def _l1_most(board: Board) -> int:
    return device_spec(board, tensix_harvested=0).l1_most


def _l1_note(found: Discovered, ttnn: str | None) -> str:
    runtime = f"ttnn {ttnn}" if ttnn else f"ttnn, if it is {NEWEST},"
    capacity = found.spec.l1_capacity
    slow = found.environment is not None and found.environment.slow_dispatch
    dispatch = " under slow dispatch" * slow
    return (
        f"{_NOT_PUBLISHED}; with the defaults of {runtime} it is {human(capacity)} ({capacity:,} B)"
        f"{dispatch}"
    )
