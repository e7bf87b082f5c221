"""Chips, boards, grids, capacities and the L1 map per runtime version; `descriptor` reads cluster descriptors."""

from ttmem.hw.arch import Arch, Dispatch, Grid, compute_grid
from ttmem.hw.boards import (
    BOARDS,
    Board,
    board,
    bus_of,
    find_board,
    galaxy_bus,
    galaxy_position,
)
from ttmem.hw.l1_map import NEWEST, VERSIONS, RuntimeL1Map, l1_map
from ttmem.hw.spec import DeviceSpec, device_spec

__all__ = [
    "BOARDS",
    "NEWEST",
    "VERSIONS",
    "Arch",
    "Board",
    "DeviceSpec",
    "Dispatch",
    "Grid",
    "RuntimeL1Map",
    "board",
    "bus_of",
    "compute_grid",
    "device_spec",
    "find_board",
    "galaxy_bus",
    "galaxy_position",
    "l1_map",
]
