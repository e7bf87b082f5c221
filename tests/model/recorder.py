"""A tracker that writes down what it is told, instead of sending it."""

from __future__ import annotations

from ttmem.client import Buffer, GraphTracker
from ttmem.client.devices import device_numbers
from ttmem.events import DeviceDeclaration


class RecordingTracker(GraphTracker):
    """Devices, and buffers with the chips that they are on."""

    def __init__(self) -> None:  # no client: nothing is sent
        self.enabled = self.kernel_backtrace = False
        self.declared: list[DeviceDeclaration] = []
        self.events: list[tuple[str, int, int, int, int, tuple[int, ...]]] = []

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        self.declared.append(declaration)

    def track_allocate(self, buffer: Buffer) -> None:
        self._write("allocate", buffer)

    def track_deallocate(self, buffer: Buffer) -> None:
        self._write("deallocate", buffer)

    def live(self) -> set[int]:
        """The ids of what is allocated and not freed."""
        ids: set[int] = set()
        for what, number, *_ in self.events:
            (ids.add if what == "allocate" else ids.remove)(number)
        return ids

    def _write(self, what: str, buffer: Buffer) -> None:
        chips = device_numbers(buffer.device)
        self.events.append((what, buffer.id, buffer.address, buffer.size, buffer.reserved, chips))
