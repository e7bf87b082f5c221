"""Chips, boards, grids, capacities and the L1 map per runtime version; reads cluster descriptors."""

from __future__ import annotations

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
from ttmem.hw.cluster import Chip, Cluster, Link
from ttmem.hw.descriptor import parse_cluster, read_cluster
from ttmem.hw.l1_map import NEWEST, VERSIONS, RuntimeL1Map, l1_map
from ttmem.hw.spec import DeviceSpec, device_spec

__all__ = [
    "BOARDS",
    "NEWEST",
    "VERSIONS",
    "Arch",
    "Board",
    "Chip",
    "Cluster",
    "DeviceSpec",
    "Dispatch",
    "Grid",
    "Link",
    "RuntimeL1Map",
    "board",
    "bus_of",
    "compute_grid",
    "device_spec",
    "find_board",
    "galaxy_bus",
    "galaxy_position",
    "l1_map",
    "parse_cluster",
    "read_cluster",
]
