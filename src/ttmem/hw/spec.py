"""What one opened device has: banks, sizes and capacities, to the byte."""

from __future__ import annotations

from ttmem.errors import BadInput
from ttmem.fast_dataclasses import dataclass
from ttmem.hw.arch import Arch, Dispatch, Grid, align_up, compute_grid
from ttmem.hw.boards import Board
from ttmem.hw.boards import board as board_by_name
from ttmem.hw.l1_map import NEWEST, RuntimeL1Map, l1_map

# On Wormhole a bank is half a channel; on Blackhole it is 16 MiB smaller than its 4 GiB channel.
_BANK_VIEW_SIZE = {Arch.WORMHOLE: 0x4000_0000, Arch.BLACKHOLE: 0xFF00_0000}

# By number of harvested channels. The allocator accepts no other number of banks.
_BANKS = {Arch.WORMHOLE: (12,), Arch.BLACKHOLE: (8, 7)}

_DEVICE_PRINT = 1024 * 1024
_BEFORE_DEVICE_PRINT = ("0.70.1", "0.71.2")
_TRACE_PAGE = 8192


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Sizes in bytes. `*_total` is what exists, `*_capacity` what can be allocated."""

    board: str
    arch: Arch
    dispatch: Dispatch
    tensix_harvested: int  # rows or columns
    grid: Grid
    l1_map: RuntimeL1Map
    l1_small_bank_size: int
    dram_banks: int
    dram_view_size: int
    dram_reserved: int
    trace_bank_size: int

    @property
    def l1_banks(self) -> int:
        return self.grid.cores

    @property
    def l1_per_core(self) -> int:
        return self.l1_map.l1_size

    @property
    def l1_total(self) -> int:
        return self.l1_banks * self.l1_per_core

    @property
    def l1_capacity(self) -> int:
        """L1 and L1_SMALL together, excluding firmware and kernel ring."""
        return self.l1_banks * self.l1_map.worker_l1_size

    @property
    def l1_most(self) -> int:
        """An upper bound for any dispatch mode: all cores, including the firmware's part."""
        return (
            compute_grid(self.arch, self.tensix_harvested, Dispatch.SLOW).cores * self.l1_per_core
        )

    @property
    def l1_bank_size(self) -> int:
        """For buffers of kind L1 only, without L1_SMALL."""
        return self.l1_map.worker_l1_size - self.l1_small_bank_size

    @property
    def cb_base(self) -> int:
        return self.l1_map.unreserved_base

    @property
    def ring_per_core(self) -> int:
        return self.l1_map.ring_bytes

    @property
    def ring_capacity(self) -> int:
        return self.l1_banks * self.ring_per_core

    @property
    def dram_bank_size(self) -> int:
        return self.dram_view_size - self.dram_reserved - self.trace_bank_size

    @property
    def dram_capacity(self) -> int:
        return self.dram_banks * self.dram_bank_size

    @property
    def l1_alignment(self) -> int:
        return self.arch.l1_alignment

    @property
    def dram_alignment(self) -> int:
        return self.arch.dram_alignment

    @property
    def note(self) -> str | None:
        """Says why the figures may be slightly wrong, if they may."""
        return self.l1_map.note


def device_spec(
    board: str | Board,
    *,
    tensix_harvested: int | None = None,
    dram_harvested: int | None = None,
    dispatch: Dispatch | str | None = None,
    version: str = NEWEST,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    worker_l1_size: int = 0,
) -> DeviceSpec:
    """One device of that board, as opened by `ttnn.open_device` with the same sizes.

    Harvesting defaults to what is usual for the board, dispatch to what TTNN selects.
    """
    kind = board if isinstance(board, Board) else board_by_name(board)
    arch = kind.arch
    mode = kind.dispatch if dispatch is None else Dispatch.parse(dispatch)
    rows_or_columns = kind.tensix_harvested if tensix_harvested is None else tensix_harvested
    channels = kind.dram_harvested if dram_harvested is None else dram_harvested
    for name, size in (("l1_small_size", l1_small_size), ("trace_region_size", trace_region_size)):
        if size < 0:
            raise BadInput(f"{name} must be 0 or more bytes, not {size}")
    banks = _number_of_dram_banks(arch, channels)
    cores = l1_map(arch, version).with_worker_l1_size(worker_l1_size)
    spec = DeviceSpec(
        board=kind.name,
        arch=arch,
        dispatch=mode,
        tensix_harvested=rows_or_columns,
        grid=compute_grid(arch, rows_or_columns, mode),
        l1_map=cores,
        # Rounded to the alignment of DRAM, as the runtime's allocator does.
        l1_small_bank_size=align_up(l1_small_size, arch.dram_alignment),
        dram_banks=banks,
        dram_view_size=_BANK_VIEW_SIZE[arch],
        dram_reserved=_dram_reserved(arch, cores.version),
        trace_bank_size=_trace_bytes_per_bank(arch, trace_region_size, banks),
    )
    if spec.l1_bank_size < 0:
        limit = spec.l1_map.worker_l1_size
        raise BadInput(f"l1_small_size {l1_small_size} is more than the {limit} bytes of a core")
    if spec.dram_bank_size < 0:
        raise BadInput(
            f"trace_region_size {trace_region_size} is more than the DRAM of one {kind.name} device"
        )
    return spec


def _number_of_dram_banks(arch: Arch, dram_harvested: int) -> int:
    banks = _BANKS[arch]
    if not 0 <= dram_harvested < len(banks):
        raise BadInput(
            f"{dram_harvested} harvested DRAM channels: no {arch} product has this; "
            f"give 0{' or 1' if len(banks) > 1 else ''}"
        )
    return banks[dram_harvested]


def _dram_reserved(arch: Arch, version: str) -> int:
    """Bytes at the bottom of each bank: the barrier and the device-print area, aligned."""
    if version in _BEFORE_DEVICE_PRINT:
        return arch.dram_alignment
    return arch.dram_alignment + _DEVICE_PRINT + arch.dram_alignment


def _trace_bytes_per_bank(arch: Arch, trace_region_size: int, banks: int) -> int:
    """`trace_region_size` is for the whole device, not for a bank."""
    region = align_up(trace_region_size, arch.dram_alignment)
    return align_up(-(-region // banks), _TRACE_PAGE)
