"""One chip: its sizes and identity, from a cluster descriptor or invented for a board."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeAlias

from ttmem.client.devices import ReportedDevice
from ttmem.events import DeviceDeclaration
from ttmem.hw import Board, Chip, Cluster, DeviceSpec, Grid, galaxy_bus, read_cluster
from ttmem.model.errors import BadMesh

ClusterLike: TypeAlias = Cluster | str | os.PathLike[str]

# The chips of a board or system that have a PCI address; the others are reached through them.
_LOCAL_CHIPS = {"n300": 1, "t3k": 4}


class SimulatedDevice(ReportedDevice):
    """A chip, with the number that the application uses for it."""

    __slots__ = ("pci", "spec", "unique_id")

    def __init__(
        self,
        logical_id: int,
        spec: DeviceSpec,
        unique_id: str | None = None,
        pci: str | None = None,
        *,
        remote: bool = False,
        position: str | None = None,
    ) -> None:
        declared = DeviceDeclaration.from_spec(
            spec, logical_id, unique_id, pci, remote=remote, position=position
        )
        super().__init__(logical_id, declared)
        self.spec = spec
        self.unique_id = unique_id
        self.pci = pci

    def compute_with_storage_grid_size(self) -> Grid:
        """The compute cores, each with one L1 bank."""
        return self.spec.grid


def made_up_devices(
    board: Board, numbers: Iterable[int], spec: DeviceSpec
) -> list[SimulatedDevice]:
    """Invented cards, with the same ids in every process."""
    return [
        SimulatedDevice(
            number,
            spec,
            _made_up_unique_id(board, number),
            pci := _made_up_pci(board, number),
            remote=pci is None,
        )
        for number in numbers
    ]


def described_devices(
    cluster: Cluster, numbers: Iterable[int], spec_of: Callable[[Chip], DeviceSpec]
) -> list[SimulatedDevice]:
    """Chips of a cluster. They must be identical, since a mesh has one allocator for all of them."""
    devices = [_described(chip, spec_of(chip)) for chip in _chips(cluster, numbers)]
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


def _described(chip: Chip, spec: DeviceSpec) -> SimulatedDevice:
    unique_id = None if chip.unique_id is None else str(chip.unique_id)
    return SimulatedDevice(
        chip.logical_id,
        spec,
        unique_id,
        chip.pci,
        remote=chip.is_remote,
        position=chip.position,
    )


def _chips(cluster: Cluster, numbers: Iterable[int]) -> list[Chip]:
    known = {chip.logical_id: chip for chip in cluster.chips}
    wanted = list(numbers)
    missing = [number for number in wanted if number not in known]
    if missing:
        raise BadMesh(
            f"no device {missing[0]} in this cluster; it has: {', '.join(map(str, known))}"
        )
    return [known[number] for number in wanted]


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
