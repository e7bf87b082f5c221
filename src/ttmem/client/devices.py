"""Devices, meshes and buffers as an application passes them in, and the logical ids behind them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from operator import index
from typing import Any, Protocol, TypeAlias

from ttmem.client.records import HIGH, MOST_32
from ttmem.events import DeviceDeclaration, MemoryKind
from ttmem.fast_dataclasses import dataclass

_MOST = 1024  # devices and meshes in either cache

# The device bits of a record's first word: one number, or one for each chip of a mesh.
Targets: TypeAlias = int | tuple[int, ...]


class _OneDevice(Protocol):
    """Anything with an `id`, either an attribute or, as in ttnn, a method."""

    @property
    def id(self) -> Any: ...


class _ManyDevices(Protocol):
    """Anything that lists its sub-devices, like a mesh."""

    def get_devices(self) -> Iterable[Any]: ...


class _ManyDeviceIds(Protocol):
    """Anything that lists the ids of its sub-devices, like ttnn's MeshDevice."""

    def get_device_ids(self) -> Iterable[int]: ...


DeviceLike: TypeAlias = int | _OneDevice | _ManyDevices | _ManyDeviceIds


class ReportedDevice:
    """One chip, with what is known about it; `ttmem.client.Device`."""

    __slots__ = ("declaration", "logical_id")

    def __init__(self, logical_id: int, declaration: DeviceDeclaration | None = None) -> None:
        self.logical_id = logical_id
        self.declaration = declaration

    def id(self) -> int:
        return self.logical_id

    def __repr__(self) -> str:
        return f"Device({self.logical_id})"


class ReportedMesh:
    """Several chips used as one, each of which holds what the mesh allocates; `ttmem.client.MeshDevice`."""

    __slots__ = ("_devices",)

    def __init__(self, devices: Iterable[DeviceLike]) -> None:
        distinct: dict[int, ReportedDevice] = {}
        for member in devices:
            for device in _chips(member):
                distinct.setdefault(device.logical_id, device)
        self._devices = tuple(distinct.values())

    def get_devices(self) -> tuple[ReportedDevice, ...]:
        return self._devices

    def get_device_ids(self) -> tuple[int, ...]:
        return tuple(device.logical_id for device in self._devices)

    def __repr__(self) -> str:
        return f"MeshDevice({list(self.get_device_ids())})"


def device_numbers(device: object) -> tuple[int, ...]:
    """The logical ids of a device or mesh, each once. TypeError if it is neither."""
    return tuple(dict.fromkeys(chip.logical_id for chip in _chips(device)))


def device_declarations(device: object) -> list[DeviceDeclaration]:
    return [chip.declaration for chip in _chips(device) if chip.declaration is not None]


def _chips(device: Any) -> Iterator[ReportedDevice]:
    if isinstance(device, ReportedDevice):
        yield device
    elif hasattr(device, "get_devices"):
        for member in device.get_devices():
            yield from _chips(member)
    elif hasattr(device, "get_device_ids"):
        yield from map(ReportedDevice, map(index, device.get_device_ids()))
    elif hasattr(device, "id"):
        yield ReportedDevice(index(device.id() if callable(device.id) else device.id))
    else:
        yield ReportedDevice(index(device))


@dataclass(slots=True, repr=False)
class ReportedBuffer:
    """A buffer on one device, or of this size on each device of a mesh; `ttmem.client.Buffer`."""

    id: int
    size: int
    kind: MemoryKind
    device: DeviceLike
    address: int = 0
    reserved: int = 0  # bytes in all banks; 0 if unknown
    site: str | None = None  # the line that allocated it

    def __repr__(self) -> str:
        return f"Buffer({self.id}, {getattr(self.kind, 'name', self.kind)}, {self.size} B)"


class TargetCache(dict[object, Targets]):
    """Which devices a report goes to, by device object. Objects of other libraries are not kept alive."""

    def __init__(self) -> None:
        super().__init__()
        self._foreign: dict[int, tuple[weakref.ref[Any], Targets]] = {}  # by id()

    def find(self, device: object) -> Targets | None:
        """The targets of an object of another library, if it has been seen before."""
        known = self._foreign.get(id(device))
        return known[1] if known is not None and known[0]() is device else None

    def add(self, device: object) -> Targets:
        """The targets of a new device. Any exception if it is not a device."""
        numbers = device_numbers(device)
        for number in numbers:
            if not 0 <= number <= MOST_32:
                raise ValueError(f"{number} is not a device number")
        bits = tuple(number << HIGH for number in numbers)
        targets = bits[0] if len(bits) == 1 else bits
        if isinstance(device, (int, ReportedDevice, ReportedMesh)):
            _limit(self)
            self[device] = targets
        else:
            self._add_foreign(device, targets)
        return targets

    def forget(self) -> None:
        self.clear()
        self._foreign.clear()

    def _add_foreign(self, device: object, targets: Targets) -> None:
        try:
            reference = weakref.ref(device)
        except TypeError:
            return
        _limit(self._foreign)
        self._foreign[id(device)] = (reference, targets)


def _limit(cache: dict[Any, Any]) -> None:
    if len(cache) >= _MOST:
        cache.clear()
