"""Chips, boards, grids, capacities, the L1 map per runtime version; reads cluster descriptors."""

from __future__ import annotations

from ttmem.hw.arch import Arch
from ttmem.hw.boards import BOARDS, Board, board, find_board
from ttmem.hw.chips import Chip, Cluster, Link
from ttmem.hw.cluster import parse_cluster, read_cluster
from ttmem.hw.device_spec import DeviceSpec, device_spec
from ttmem.hw.galaxy import bus_of, galaxy_bus, galaxy_position
from ttmem.hw.grids import Dispatch, Grid, compute_grid
from ttmem.hw.l1_map import NEWEST, VERSIONS, L1Map, l1_map

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
    "L1Map",
    "Link",
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
