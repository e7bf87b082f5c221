"""Chips, boards, grids, capacities and the L1 map per runtime version; reads cluster descriptors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from ttmem.hw.cluster import Chip, Cluster
    from ttmem.hw.descriptor import parse_cluster, read_cluster

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

# Loaded when a descriptor is read: `ttmem ps` mostly has none.
_LATER = {
    "Chip": "cluster",
    "Cluster": "cluster",
    "parse_cluster": "descriptor",
    "read_cluster": "descriptor",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'ttmem.hw' has no attribute {name!r}")
    return getattr(import_module(f"ttmem.hw.{_LATER[name]}"), name)
