"""Which devices a report goes to, remembered for each device object that was seen."""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

from ttmem.client.devices import Device, MeshDevice, device_numbers
from ttmem.client.records import HIGH, MOST_32

MOST = 1024  # devices and meshes in either cache

# The device bits of the first word of a record: a number, or one for each chip of a mesh.
Targets: TypeAlias = int | tuple[int, ...]


class TargetCache(dict[object, Targets]):
    """By device. Objects of other libraries are remembered, but not kept alive."""

    def __init__(self) -> None:
        super().__init__()
        self._foreign: dict[int, tuple[weakref.ref[Any], Targets]] = {}  # by id()

    def find(self, device: object) -> Targets | None:
        """What an object of another library means, if it has been seen."""
        known = self._foreign.get(id(device))
        return known[1] if known is not None and known[0]() is device else None

    def add(self, device: object) -> Targets:
        """What a new device means; any exception if it is none."""
        numbers = device_numbers(device)
        for number in numbers:
            if not 0 <= number <= MOST_32:
                raise ValueError(f"{number} is no device number")
        bits = tuple(number << HIGH for number in numbers)
        targets = bits[0] if len(bits) == 1 else bits
        if isinstance(device, (int, Device, MeshDevice)):
            _make_room(self)
            self[device] = targets
        else:
            self._add_foreign(device, targets)
        return targets

    def forget(self) -> None:
        """Empties the cache."""
        self.clear()
        self._foreign.clear()

    def _add_foreign(self, device: object, targets: Targets) -> None:
        try:
            reference = weakref.ref(device)
        except TypeError:
            return
        _make_room(self._foreign)
        self._foreign[id(device)] = (reference, targets)


def _make_room(cache: dict[Any, Any]) -> None:
    if len(cache) >= MOST:
        cache.clear()
