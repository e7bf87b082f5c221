"""One chip: its sizes and identity, from a cluster descriptor or invented for a board."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeAlias

from ttmem.client.devices import ReportedDevice
from ttmem.events import DeviceDeclaration
from ttmem.events.device import declared_chip
from ttmem.hw import Board, DeviceSpec, Grid, galaxy_bus
from ttmem.hw.descriptor import Cluster, read_cluster
from ttmem.model.errors import BadMesh

ClusterLike: TypeAlias = Cluster | str | os.PathLike[str]

# The chips of a board or system that have a PCI address; the others are reached through them.
_LOCAL_CHIPS = {"n300": 1, "t3k": 4}


class SimulatedDevice(ReportedDevice):
    """A chip, with the number that the application uses for it."""

    __slots__ = ("pci", "spec", "unique_id")

    def __init__(self, spec: DeviceSpec, declared: DeviceDeclaration) -> None:
        super().__init__(declared.logical_id, declared)
        self.spec = spec
        self.unique_id = declared.unique_id
        self.pci = declared.pci

    def compute_with_storage_grid_size(self) -> Grid:
        """The compute cores, each with one L1 bank."""
        return self.spec.grid


def made_up_devices(
    board: Board, numbers: Iterable[int], spec: DeviceSpec
) -> list[SimulatedDevice]:
    """Invented cards, with the same ids in every process."""
    devices = []
    for number in numbers:
        unique_id, pci = _made_up_unique_id(board, number), _made_up_pci(board, number)
        remote = pci is None
        declared = DeviceDeclaration.from_spec(spec, number, unique_id, pci, remote=remote)
        devices.append(SimulatedDevice(spec, declared))
    return devices


def described_devices(
    cluster: Cluster, numbers: Iterable[int], spec_of: Callable[[Board], DeviceSpec]
) -> list[SimulatedDevice]:
    """Chips of a cluster. They must be identical, since a mesh has one allocator for all of them."""
    known = {chip.logical_id: chip for chip in cluster.chips}
    devices: list[SimulatedDevice] = []
    for number in numbers:
        if number not in known:
            raise BadMesh(
                f"no device {number} in this cluster; it has: {', '.join(map(str, known))}"
            )
        spec = spec_of(known[number].board)
        devices.append(SimulatedDevice(spec, declared_chip(spec, known[number])))
    for device in devices:
        if _shape(device.spec) != _shape(devices[0].spec):
            raise BadMesh(
                f"devices {devices[0].id()} and {device.id()} are not harvested alike; "
                "a mesh needs equal devices"
            )
    return devices


def cluster_from(cluster: ClusterLike) -> Cluster:
    """A cluster, given as such or as the path of its descriptor."""
    return cluster if isinstance(cluster, Cluster) else read_cluster(cluster)


def _shape(spec: DeviceSpec) -> tuple[object, ...]:
    return spec.arch, spec.dispatch, spec.grid, spec.dram_banks


def _made_up_unique_id(board: Board, number: int) -> str:
    digest = blake2b(f"ttmem.model:{board.name}:{number}".encode(), digest_size=8).digest()
    return str(int.from_bytes(digest, "little"))


def _made_up_pci(board: Board, number: int) -> str | None:
    card, chip = divmod(number, board.chips)
    local = _LOCAL_CHIPS.get(board.name, board.chips)
    if chip >= local:
        return None
    bus = galaxy_bus(board, chip)
    if bus is not None:
        return f"{card:04x}:{bus:02x}:00.0"
    domain, bus = divmod(card * local + chip, 255)
    return f"{domain:04x}:{bus + 1:02x}:00.0"
