"""DRAM as the runtime sees it: banks of one size, with a reserved bottom."""

from __future__ import annotations

from ttmem.errors import BadInput
from ttmem.hw.arch import Arch, align_up

# One GiB is half a channel on Wormhole; Blackhole's bank is 16 MiB short of its 4 GiB channel.
BANK_VIEW_SIZE = {Arch.WORMHOLE: 0x4000_0000, Arch.BLACKHOLE: 0xFF00_0000}

# By number of harvested channels. The allocator takes no other number of banks.
_BANKS = {Arch.WORMHOLE: (12,), Arch.BLACKHOLE: (8, 7)}

_DEVICE_PRINT = 1024 * 1024
_BEFORE_DEVICE_PRINT = ("0.70.1", "0.71.2")
_TRACE_PAGE = 8192


def dram_banks(arch: Arch, dram_harvested: int) -> int:
    banks = _BANKS[arch]
    if not 0 <= dram_harvested < len(banks):
        raise BadInput(
            f"{dram_harvested} harvested DRAM channels: no {arch} product has this; "
            f"give 0{' or 1' if len(banks) > 1 else ''}"
        )
    return banks[dram_harvested]


def dram_reserved(arch: Arch, version: str) -> int:
    """Bytes at the bottom of each bank: the barrier, and the device-print area, aligned."""
    if version in _BEFORE_DEVICE_PRINT:
        return arch.dram_alignment
    return arch.dram_alignment + _DEVICE_PRINT + arch.dram_alignment


def trace_bytes_per_bank(arch: Arch, trace_region_size: int, banks: int) -> int:
    """`trace_region_size` is for the whole device, not for a bank."""
    region = align_up(trace_region_size, arch.dram_alignment)
    return align_up(-(-region // banks), _TRACE_PAGE)
