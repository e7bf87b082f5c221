"""The machines that can be mocked, and their cluster descriptors.

Harvesting comes from `ttmem.hw`, so a board that ttmem describes wrongly fails against the runtime at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from ttmem.hw import Arch, DeviceSpec, board, device_spec


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a script may ask of `ttnn.open_mesh_device`, by its names and with its defaults."""

    l1_small_size: int = 0
    trace_region_size: int = 0
    worker_l1_size: int = 0
    num_command_queues: int = 1


USUAL_SIZES = Sizes()


@dataclass(frozen=True, slots=True)
class BenchBoard:
    """A grid of chips, neighbours linked. `product` is the name in `ttmem.hw`, `board_type` the driver's."""

    name: str
    product: str
    board_type: str
    rows: int = 1
    columns: int = 1
    chips_per_board: int = 1

    @property
    def chips(self) -> int:
        return self.rows * self.columns

    def spec(self, sizes: Sizes = USUAL_SIZES) -> DeviceSpec:
        """What ttmem knows of one of its chips, opened with the same sizes."""
        return device_spec(
            self.product,
            l1_small_size=sizes.l1_small_size,
            trace_region_size=sizes.trace_region_size,
            worker_l1_size=sizes.worker_l1_size,
        )


N150 = BenchBoard("n150", "n150", "n150")
P150 = BenchBoard("p150", "p150", "p150")
P150_X4 = BenchBoard("p150x4", "p150", "p150", columns=4)
T3K = BenchBoard("t3k", "t3k", "n300", rows=2, columns=4, chips_per_board=2)
GALAXY = BenchBoard("galaxy", "galaxy", "ubb", rows=8, columns=4, chips_per_board=32)
BOARDS = {known.name: known for known in (N150, P150, P150_X4, T3K, GALAXY)}


def new_unique_ids(chips: int) -> list[int]:
    """Ids that no card has and no other run takes: the runtime names its shared memory by them."""
    return [(1 << 62) | secrets.randbits(62) for _ in range(chips)]


# -- Cluster descriptors of our own making: all that a mocked machine is.


# Ethernet channels by type of board: to the right, from the left, down, from above.
_SIDES: dict[str, tuple[range, range, range, range]] = {
    "n300": (range(8, 10), range(0, 2), range(14, 16), range(6, 8)),
    "ubb": (range(8, 12), range(4, 8), range(12, 16), range(0, 4)),
    "p150": (range(8, 12), range(4, 8), range(0), range(0)),
}
# The driver tells a board's type by these bits of its id, above a serial number of 36 bits.
_TYPE_CODES = {"n150": 0x18, "n300": 0x14, "ubb": 0x35, "p150": 0x40}
_HARVESTED_BESIDE_TENSIX = {
    Arch.WORMHOLE: {"eth_harvesting_mask": 0, "pcie_harvesting_mask": 0},
    Arch.BLACKHOLE: {"eth_harvesting_mask": 0b1_0010_0000, "pcie_harvesting_mask": 0b10},
}


def descriptor(kind: BenchBoard, unique_ids: list[int]) -> str:
    """The YAML that makes the runtime believe in this machine."""
    product = board(kind.product)
    chips = range(kind.chips)
    arch = "wormhole_b0" if product.arch is Arch.WORMHOLE else "blackhole"
    masks = {
        "noc_translation": True,
        "harvest_mask": (1 << product.tensix_harvested) - 1,
        "dram_harvesting_mask": (1 << product.dram_harvested) - 1,
    } | _HARVESTED_BESIDE_TENSIX[product.arch]
    content: dict[str, Any] = {
        "arch": dict.fromkeys(chips, arch),
        "chips": {},
        "chip_unique_ids": dict(enumerate(unique_ids)),
        "ethernet_connections": list(_links(kind)),
        "ethernet_connections_to_remote_devices": [],
        "chips_with_mmio": [{chip: chip} for chip in chips if not _is_remote(kind, chip)],
        "io_device_type": "PCIe",
        "harvesting": {chip: dict(masks) for chip in chips},
        "boards": list(_boards(kind, unique_ids)),
    }
    if kind.board_type == "n300":
        content["chips"] = {chip: [*divmod(chip, kind.columns)[::-1], 0, 0] for chip in chips}
    if kind.board_type == "ubb":
        seats = [_tray_and_place(kind, chip) for chip in chips]
        content["chip_to_bus_id"] = {
            c: f"0x{tray:x}{place}" for c, (tray, place) in enumerate(seats)
        }
        content["asic_locations"] = {chip: place for chip, (_, place) in enumerate(seats)}
    return str(yaml.safe_dump(content, sort_keys=False))


def _links(kind: BenchBoard) -> Iterator[list[dict[str, int]]]:
    if kind.chips == 1:
        return
    right, left, down, up = _SIDES[kind.board_type]
    for chip in range(kind.chips):
        neighbours = []
        if (chip + 1) % kind.columns:
            neighbours.append((chip + 1, right, left))
        if chip + kind.columns < kind.chips:
            neighbours.append((chip + kind.columns, down, up))
        for other, ours, theirs in neighbours:
            for here, there in zip(ours, theirs, strict=True):
                yield [{"chip": chip, "chan": here}, {"chip": other, "chan": there}]


def _boards(kind: BenchBoard, unique_ids: list[int]) -> Iterator[list[dict[str, Any]]]:
    for first in range(0, kind.chips, kind.chips_per_board):
        serial = unique_ids[first] & 0xF_FFFF_FFFF
        yield [
            {"board_id": _TYPE_CODES[kind.board_type] << 36 | serial},
            {"board_type": kind.board_type},
            {"chips": list(range(first, first + kind.chips_per_board))},
        ]


def _is_remote(kind: BenchBoard, chip: int) -> bool:
    """Of the two chips of an n300 one is reached through the other: in a T3K the outer one."""
    return kind.board_type == "n300" and chip % kind.columns in (0, kind.columns - 1)


def _tray_and_place(kind: BenchBoard, chip: int) -> tuple[int, int]:
    """Where a Galaxy's chip sits; the runtime looks for its mesh there.

    Four trays of 4 x 2 chips are told apart by the first digit of their PCI bus. Their places are numbered from the
    outer corner inwards, so each tray is the mirror of its neighbours.
    """
    row, column = divmod(chip, kind.columns)
    tray = ((0xC, 0x0), (0x4, 0x8))[row // 4][column // 2]
    return tray, 1 + min(row, 7 - row) + 4 * min(column, 3 - column)
