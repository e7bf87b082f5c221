"""The chips of one machine and the Ethernet links between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
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
        """Whether it is reached over Ethernet only, through `gateway`, having no MMIO of its own."""
        return self.mmio_index is None

    @property
    def position(self) -> str | None:
        """Tray and chip on a Galaxy, such as 'T1:N3'."""
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
        """The board or system; None if there are different boards, or one of an unknown type."""
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

    def _is_wired_as_t3k(self) -> bool:
        # The runtime's own rule; eight chips wired differently are just four n300.
        neighbours = _neighbours(self.links)
        return len(self.chips) == 8 and all(
            len(neighbours.get(chip.logical_id, ())) == (2 if chip.is_remote else 3)
            for chip in self.chips
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


def find_gateways(
    boards: Mapping[int, int | None], mmio: Iterable[int], links: Iterable[Link]
) -> dict[int, int]:
    """The MMIO chip through which each remote chip is reached, given each chip's board id.

    The driver uses the MMIO chip on the same board regardless of the links. Boards without one are reached over
    links from the nearest MMIO chip (the lowest, if several are equally near). Unreachable chips are left out.
    """
    local = set(mmio)
    on_board: dict[int, int] = {}
    for chip in sorted(local):
        board = boards[chip]
        if board is not None:
            on_board.setdefault(board, chip)
    by_link = _nearest_by_link(sorted(local), links)
    gateways: dict[int, int] = {}
    for chip, board in boards.items():
        if chip in local:
            continue
        if board is not None and board in on_board:
            gateways[chip] = on_board[board]
        elif chip in by_link:
            gateways[chip] = by_link[chip]
    return gateways


def _nearest_by_link(sources: list[int], links: Iterable[Link]) -> dict[int, int]:
    neighbours = _neighbours(links)
    reached = {source: source for source in sources}
    queue = deque(sources)
    while queue:
        chip = queue.popleft()
        for neighbour in sorted(neighbours.get(chip, ())):
            if neighbour not in reached:
                reached[neighbour] = reached[chip]
                queue.append(neighbour)
    return reached


def _neighbours(links: Iterable[Link]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for link in links:
        found.setdefault(link.chip_a, set()).add(link.chip_b)
        found.setdefault(link.chip_b, set()).add(link.chip_a)
    return found
