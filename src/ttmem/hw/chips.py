"""The chips of one machine and the Ethernet links between them, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from ttmem.errors import BadInput
from ttmem.hw.arch import Arch
from ttmem.hw.boards import Board, find_board
from ttmem.hw.device_spec import DeviceSpec, device_spec
from ttmem.hw.galaxy import bus_of, galaxy_position
from ttmem.hw.grids import Dispatch
from ttmem.hw.l1_map import NEWEST


@dataclass(frozen=True, slots=True)
class Chip:
    """`pci` is None where the descriptor names only a bus: the domain cannot be known from it."""

    logical_id: int
    unique_id: int | None
    arch: Arch
    board_type: str | None
    board_id: int | None
    pci: str | None
    bus_id: int | None
    mmio_index: int | None
    gateway: int | None
    tensix_mask: int
    dram_mask: int
    eth_mask: int
    asic_location: int | None

    @property
    def is_remote(self) -> bool:
        """Reached over Ethernet only, through `gateway`: it has no MMIO of its own."""
        return self.mmio_index is None

    @property
    def position(self) -> str | None:
        """'T1:N3' on a Galaxy: tray and chip."""
        bus = self.bus_id if self.pci is None else bus_of(self.pci)
        return galaxy_position(find_board(self.board_type or ""), bus)

    @property
    def tensix_harvested(self) -> int:
        return self.tensix_mask.bit_count()

    @property
    def dram_harvested(self) -> int:
        return self.dram_mask.bit_count()

    @property
    def eth_harvested(self) -> int:
        return self.eth_mask.bit_count()


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One Ethernet link, the lower (chip, channel) first."""

    chip_a: int
    channel_a: int
    chip_b: int
    channel_b: int


@dataclass(frozen=True, slots=True)
class Cluster:
    chips: tuple[Chip, ...]
    links: tuple[Link, ...]

    def chip(self, logical_id: int) -> Chip:
        for chip in self.chips:
            if chip.logical_id == logical_id:
                return chip
        known = ", ".join(str(chip.logical_id) for chip in self.chips)
        raise BadInput(f"no chip {logical_id} in this cluster; it has: {known}")

    def by_unique_id(self, unique_id: int) -> Chip | None:
        return next((chip for chip in self.chips if chip.unique_id == unique_id), None)

    @property
    def board_name(self) -> str | None:
        """The board or system; None if boards are mixed, or of a type that ttmem does not know."""
        boards = {find_board(chip.board_type or "") for chip in self.chips}
        only = boards.pop() if len(boards) == 1 else None
        if only is None:
            return None
        return "t3k" if only.name == "n300" and self._is_wired_as_t3k() else only.name

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
        """The chip's figures, with its own harvesting."""
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

    def _is_wired_as_t3k(self) -> bool:
        # The runtime's own rule; eight chips that are wired otherwise are just four n300.
        neighbours: dict[int, set[int]] = {chip.logical_id: set() for chip in self.chips}
        for link in self.links:
            neighbours[link.chip_a].add(link.chip_b)
            neighbours[link.chip_b].add(link.chip_a)
        return len(self.chips) == 8 and all(
            len(neighbours[chip.logical_id]) == (2 if chip.is_remote else 3) for chip in self.chips
        )


def _board_of(chip: Chip) -> Board:
    """A board of unknown type still has an architecture and harvesting: enough for capacities."""
    return find_board(chip.board_type or "") or Board.of(
        chip.board_type or "unknown",
        chip.arch,
        chips=1,
        tensix_harvested=chip.tensix_harvested,
        dram_harvested=chip.dram_harvested,
    )
