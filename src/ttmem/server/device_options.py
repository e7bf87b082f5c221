"""Boards and capacities that the server's user gives, for clients that declare none."""

from __future__ import annotations

from ttmem.events import DeviceDeclaration
from ttmem.fast_dataclasses import replace
from ttmem.hw import Cluster, device_spec, read_cluster
from ttmem.hw import board as board_by_name


class DeviceOptions:
    """`serve --board`, `--cluster` and `--l1-capacity`."""

    def __init__(
        self, board: str | None = None, cluster: str | None = None, l1_capacity: int | None = None
    ) -> None:
        self._board = board_by_name(board) if board else None
        self._cluster: Cluster | None = read_cluster(cluster) if cluster else None
        self._l1_capacity = l1_capacity
        self._made: dict[int, DeviceDeclaration | None] = {}

    def known_ids(self) -> list[int]:
        """Logical ids of devices that exist for certain: those of the cluster."""
        return [chip.logical_id for chip in self._cluster.chips] if self._cluster else []

    def chips(self) -> int:
        """Those of one board: how many boards there are, nobody says."""
        return self._board.chips if self._board else 0

    def declaration(self, logical_id: int) -> DeviceDeclaration | None:
        """What the options say of a device; None if they say nothing."""
        if logical_id not in self._made:
            self._made[logical_id] = self._make(logical_id)
        return self._made[logical_id]

    def _make(self, logical_id: int) -> DeviceDeclaration | None:
        declared = self._hardware(logical_id)
        if self._l1_capacity is not None:
            return replace(declared or DeviceDeclaration(logical_id), l1_capacity=self._l1_capacity)
        return declared

    def _hardware(self, logical_id: int) -> DeviceDeclaration | None:
        if self._cluster is not None:
            chips = {chip.logical_id: chip for chip in self._cluster.chips}
            if logical_id in chips:
                chip = chips[logical_id]
                unique_id = None if chip.unique_id is None else str(chip.unique_id)
                declared = DeviceDeclaration.from_spec(
                    self._cluster.spec(chip),
                    logical_id,
                    unique_id,
                    chip.pci,
                    remote=chip.is_remote,
                    position=chip.position,
                )
                return _undivided(declared)
        if self._board is not None:
            usual = DeviceDeclaration.from_spec(device_spec(self._board), logical_id)
            said = self._board.note and f"{self._board.note}; --cluster FILE tells which"
            notes = [note for note in (usual.note, said) if note]
            return _undivided(replace(usual, note="; ".join(notes) or None))
        return None


def _undivided(full: DeviceDeclaration) -> DeviceDeclaration:
    """The hardware is known; how the application split it into L1_SMALL and trace regions is not."""
    return replace(full, l1_bank_size=None, l1_small_bank_size=None, trace_bank_size=None)
