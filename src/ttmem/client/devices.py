"""Devices and meshes as an application names them, and the logical ids behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import index
from typing import Any, Protocol, TypeAlias

from ttmem.events import DeviceDeclaration


class OneDevice(Protocol):
    """Anything with an `id`, be it an attribute or, as in ttnn, a method."""

    @property
    def id(self) -> Any: ...


class ManyDevices(Protocol):
    """Anything that lists its sub-devices, as a mesh does."""

    def get_devices(self) -> Iterable[Any]: ...


class ManyDeviceIds(Protocol):
    """Anything that lists the ids of its sub-devices, as ttnn's MeshDevice does."""

    def get_device_ids(self) -> Iterable[int]: ...


DeviceLike: TypeAlias = int | OneDevice | ManyDevices | ManyDeviceIds


class Device:
    """One chip, with what is known about it."""

    __slots__ = ("declaration", "logical_id")

    def __init__(self, logical_id: int, declaration: DeviceDeclaration | None = None) -> None:
        self.logical_id = logical_id
        self.declaration = declaration

    def id(self) -> int:
        """The logical id, as the application numbers its devices."""
        return self.logical_id

    def __repr__(self) -> str:
        return f"Device({self.logical_id})"


class MeshDevice:
    """Several chips that are used as one: each of them holds what the mesh allocates."""

    __slots__ = ("_devices",)

    def __init__(self, devices: Iterable[DeviceLike]) -> None:
        distinct: dict[int, Device] = {}
        for member in devices:
            for device in _chips(member):
                distinct.setdefault(device.logical_id, device)
        self._devices = tuple(distinct.values())

    def get_devices(self) -> tuple[Device, ...]:
        """The chips, each once."""
        return self._devices

    def get_device_ids(self) -> tuple[int, ...]:
        """Their logical ids."""
        return tuple(device.logical_id for device in self._devices)

    def __repr__(self) -> str:
        return f"MeshDevice({list(self.get_device_ids())})"


def device_numbers(device: object) -> tuple[int, ...]:
    """The logical ids behind a device or a mesh, each once; TypeError if it is neither."""
    return tuple(dict.fromkeys(chip.logical_id for chip in _chips(device)))


def device_declarations(device: object) -> list[DeviceDeclaration]:
    """What is known about the chips behind a device or a mesh."""
    return [chip.declaration for chip in _chips(device) if chip.declaration is not None]


def _chips(device: Any) -> Iterator[Device]:
    if isinstance(device, Device):
        yield device
    elif hasattr(device, "get_devices"):
        for member in device.get_devices():
            yield from _chips(member)
    elif hasattr(device, "get_device_ids"):
        yield from map(Device, map(index, device.get_device_ids()))
    elif hasattr(device, "id"):
        yield Device(index(device.id() if callable(device.id) else device.id))
    else:
        yield Device(index(device))
