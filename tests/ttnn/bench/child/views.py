"""Asks the runtime what it holds."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from tests.ttnn.bench.answers import Block, CoreBuffer, KindView, LiveBuffer, Views


def views(ttnn: Any, device: Any) -> Views:
    reports = ttnn._ttnn.reports
    info = reports.get_device_info(device)
    return Views(
        kinds={
            name.lower(): _kind_view(ttnn.get_memory_view(device, getattr(ttnn.BufferType, name)))
            for name in ("DRAM", "L1", "L1_SMALL", "TRACE")
        },
        device_info={name: getattr(info, name) for name in dir(info) if not name.startswith("_")},
        buffers=sorted(map(_buffer, reports.get_buffers([device])), key=str),
        program_cache_entries=device.num_program_cache_entries(),
    )


def _kind_view(view: Any) -> KindView:
    blocks = [
        Block(
            address=int(row["address"]), size=int(row["size"]), allocated=row["allocated"] == "yes"
        )
        for row in view.block_table
    ]
    blocks.sort(key=lambda block: block["address"])
    return KindView(
        num_banks=view.num_banks,
        total_bytes_per_bank=view.total_bytes_per_bank,
        total_bytes_allocated_per_bank=view.total_bytes_allocated_per_bank,
        total_bytes_free_per_bank=view.total_bytes_free_per_bank,
        largest_contiguous_bytes_free_per_bank=view.largest_contiguous_bytes_free_per_bank,
        block_table=blocks,
    )


def _buffer(info: Any) -> LiveBuffer:
    return LiveBuffer(
        address=info.address,
        buffer_layout=info.buffer_layout.name,
        buffer_type=info.buffer_type.name,
        device_id=info.device_id,
        max_size_per_bank=info.max_size_per_bank,
    )


def core_buffers(
    ttnn: Any, work: Callable[[], object], *, dispatched: bool = False
) -> list[CoreBuffer]:
    """The circular and dataflow buffers of these ops, captured while nothing is dispatched.

    If they are dispatched, what the program cache has is left out, dataflow buffers too, and the others have addresses.
    The capture asks for torch, which weighs gigabytes; a module with a class `Tensor` is all that it looks at.
    """
    if "torch" not in sys.modules:
        torch = types.ModuleType("torch")
        torch.__dict__["Tensor"] = type("Tensor", (), {})
        sys.modules["torch"] = torch
    modes = ttnn.graph.RunMode
    ttnn.graph.begin_graph_capture(modes.NORMAL if dispatched else modes.NO_DISPATCH)
    try:
        work()
    finally:
        graph = ttnn.graph.end_graph_capture()
    found = []
    for node in graph:
        kind, _, what = node["node_type"].rpartition("_")
        if kind in ("circular_buffer", "dataflow_buffer") and what == "allocate":
            facts = node["params"]
            borrowed = facts.get("globally_allocated", facts.get("borrows_memory")) == "1"
            found.append(
                CoreBuffer(
                    kind=kind,
                    size=facts["size"],
                    cores=facts["core_range_set"],
                    device_id=facts["device_id"],
                    borrowed=borrowed,
                    address=facts.get("address", 0),
                )
            )
    return found
