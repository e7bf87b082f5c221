"""The machines that can be mocked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from ttmem.hw import DeviceSpec, device_spec


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
