"""The chips of one machine."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.errors import BadInput
from ttmem.hw.arch import Arch, Dispatch
from ttmem.hw.boards import Board, bus_of, find_board, galaxy_position
from ttmem.hw.l1_map import NEWEST
from ttmem.hw.spec import DeviceSpec, device_spec


@dataclass(frozen=True, slots=True)
class Chip:
    """`pci` is None if the descriptor names only a bus, which does not reveal the domain."""

    logical_id: int
    unique_id: int | None
    arch: Arch
    board_type: str | None
    pci: str | None
    bus_id: int | None
    is_remote: bool  # reached over Ethernet only, having no MMIO of its own
    tensix_harvested: int
    dram_harvested: int

    @property
    def position(self) -> str | None:
        """Tray and chip on a Galaxy, such as 'T1:N3'."""
        bus = self.bus_id if self.pci is None else bus_of(self.pci)
        return galaxy_position(find_board(self.board_type or ""), bus)


@dataclass(frozen=True, slots=True)
class Cluster:
    chips: tuple[Chip, ...]

    def chip(self, logical_id: int) -> Chip:
        for chip in self.chips:
            if chip.logical_id == logical_id:
                return chip
        known = ", ".join(str(chip.logical_id) for chip in self.chips)
        raise BadInput(f"no chip {logical_id} in this cluster; it has: {known}")

    def by_unique_id(self, unique_id: int) -> Chip | None:
        return next((chip for chip in self.chips if chip.unique_id == unique_id), None)

    def spec(
        self,
        chip: Chip | int,
        *,
        dispatch: Dispatch | str | None = None,
        version: str = NEWEST,
        l1_small_size: int = 0,
        trace_region_size: int = 0,
        worker_l1_size: int = 0,
    ) -> DeviceSpec:
        """The figures of one chip, with its own harvesting."""
        member = chip if isinstance(chip, Chip) else self.chip(chip)
        return device_spec(
            _board_of(member),
            tensix_harvested=member.tensix_harvested,
            dram_harvested=member.dram_harvested,
            dispatch=dispatch,
            version=version,
            l1_small_size=l1_small_size,
            trace_region_size=trace_region_size,
            worker_l1_size=worker_l1_size,
        )


def _board_of(chip: Chip) -> Board:
    """A board of unknown type still has an architecture and harvesting, which suffice for capacities."""
    return find_board(chip.board_type or "") or Board.of(
        chip.board_type or "unknown",
        chip.arch,
        chips=1,
        tensix_harvested=chip.tensix_harvested,
        dram_harvested=chip.dram_harvested,
    )
