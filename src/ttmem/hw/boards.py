"""The boards and systems that one can buy, by the names that people and drivers give them."""

from __future__ import annotations

from dataclasses import dataclass
from reprlib import repr as short_repr

from ttmem.errors import BadInput
from ttmem.hw.arch import Arch
from ttmem.hw.grids import Dispatch, compute_grid, worker_dispatch


@dataclass(frozen=True, slots=True)
class Board:
    """`chips` counts the devices of the whole board or system; the rest describes one of them."""

    name: str
    arch: Arch
    chips: int
    tensix_harvested: int
    dram_harvested: int
    dispatch: Dispatch
    also_harvested: tuple[int, ...] = ()  # what chips of this board have beside the usual

    @property
    def note(self) -> str | None:
        """Why the usual harvesting may not be that of a chip, if it may not."""
        if not self.also_harvested:
            return None
        usual, *others = (
            compute_grid(self.arch, harvested, self.dispatch).cores
            for harvested in (self.tensix_harvested, *self.also_harvested)
        )
        other = " or ".join(map(str, others))
        return f"some {self.name} have {other} compute cores, not {usual}, and so more L1"

    @classmethod
    def of(
        cls,
        name: str,
        arch: Arch,
        *,
        chips: int,
        tensix_harvested: int,
        dram_harvested: int = 0,
        also_harvested: tuple[int, ...] = (),
    ) -> Board:
        """A board with the dispatch that TTNN picks: Ethernet on n300 and T3K, else workers."""
        on_ethernet = name in ("n300", "t3k")
        dispatch = Dispatch.ETH if on_ethernet else worker_dispatch(arch)
        return cls(name, arch, chips, tensix_harvested, dram_harvested, dispatch, also_harvested)


BOARDS = (
    Board.of("n150", Arch.WORMHOLE, chips=1, tensix_harvested=1),
    Board.of("n300", Arch.WORMHOLE, chips=2, tensix_harvested=2),
    Board.of("t3k", Arch.WORMHOLE, chips=8, tensix_harvested=2),
    Board.of("galaxy", Arch.WORMHOLE, chips=32, tensix_harvested=0),
    Board.of("p100", Arch.BLACKHOLE, chips=1, tensix_harvested=2, dram_harvested=1),
    Board.of("p150", Arch.BLACKHOLE, chips=1, tensix_harvested=2, also_harvested=(1,)),
    Board.of("p300", Arch.BLACKHOLE, chips=2, tensix_harvested=2),
    Board.of("bh-galaxy", Arch.BLACKHOLE, chips=32, tensix_harvested=1),
)

_OTHER_NAMES = {
    "n150": ("n150d", "n150s"),
    "n300": ("n300d", "n300s"),
    "t3k": ("t3000",),
    "galaxy": ("6u", "tg", "ubb", "ubb-wormhole", "galaxy-wormhole", "wh-galaxy"),
    "p100": ("p100a",),
    "p150": ("p150a", "p150b", "p150c"),
    "p300": ("p300a", "p300b", "p300c"),
    "bh-galaxy": ("ubb-blackhole", "galaxy-blackhole", "blackhole-galaxy"),
}

_BY_NAME = {name: board for board in BOARDS for name in (board.name, *_OTHER_NAMES[board.name])}


def find_board(name: str) -> Board | None:
    return _BY_NAME.get(name.strip().lower().replace("_", "-").replace(" ", "-"))


def board(name: str) -> Board:
    found = find_board(name)
    if found is None:
        known = ", ".join(known.name for known in BOARDS)
        raise BadInput(f"unknown board {short_repr(name)}; use one of: {known}")
    return found
