"""What the runtime says of itself, as it crosses the pipe between child and test."""

from __future__ import annotations

from typing import TypedDict

FAREWELL = "null\n"


class Block(TypedDict):
    """One block of a bank's free list; `address` is an offset in the bank."""

    address: int
    size: int
    allocated: bool


class KindView(TypedDict):
    """`ttnn.get_memory_view` of one buffer type; the blocks lie in order of address."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    block_table: list[Block]


class LiveBuffer(TypedDict):
    """One entry of `reports.get_buffers`."""

    address: int
    buffer_layout: str
    buffer_type: str
    device_id: int
    max_size_per_bank: int


class Views(TypedDict):
    """`kinds` has the keys dram, l1, l1_small and trace; `device_info` is `reports.get_device_info`."""

    kinds: dict[str, KindView]
    device_info: dict[str, int]
    buffers: list[LiveBuffer]
    program_cache_entries: int


class CoreBuffer(TypedDict):
    """A circular or dataflow buffer that an op wants; `borrowed` ones lie in a tensor's memory.

    The address is 0 unless the op was dispatched.
    """

    kind: str
    size: int
    cores: str
    device_id: int
    borrowed: bool
    address: int
