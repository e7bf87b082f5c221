"""Two scripted applications on four p150 chips: `python -m ttmem.demo.workloads transformer|serving SECONDS`.

The figures are a script, not a model: weights and caches of a small transformer, programs whose circular buffers start
where the runtime's do, system kernels with the seeds' sizes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from ttmem.client import Buffer, Device, GraphTracker, MeshDevice
from ttmem.events import BinaryStatus, DeviceDeclaration, KernelType, MemoryKind
from ttmem.hw import DeviceSpec, device_spec

MIB = 1 << 20
CHIPS = (4476187513102, 4476187513145, 4476187513177, 4476187513191)
LAYERS = 16


class Application:
    """What both workloads do: open devices, allocate, run programs."""

    def __init__(self, chips: int) -> None:
        self.tracker = GraphTracker.instance()
        self.tracker.enabled = True
        self.spec = device_spec("p150", l1_small_size=32_768, trace_region_size=64 * MIB)
        declared = [_declaration(self.spec, number) for number in range(chips)]
        for declaration in declared:
            self.tracker.declare_device(declaration)
        self.mesh = MeshDevice([Device(d.logical_id, d) for d in declared])
        self._next_id = 0x10_0000
        self._programs = 0
        self._l1_top = self.spec.l1_per_core - self.spec.l1_small_bank_size
        self._occupied = 0
        self._wraps = 0

    def system_kernels(self) -> None:
        """Fabric on 16 ethernet cores and dispatch on 2, loaded by slow dispatch when the device opens."""
        for number, (size, cores, kind) in enumerate(
            ((57_344, 16, KernelType.FABRIC), (47_104, 2, KernelType.DISPATCH)), start=1
        ):
            name = f"{kind.name.lower()}_router" if kind is KernelType.FABRIC else "cq_dispatch"
            self.tracker.track_kernel_load(size, number, self.mesh, kind, cores, name=name)
            self.tracker.track_binary_status(number, self.mesh, BinaryStatus.NOT_SENT)

    def allocate(self, size: int, kind: MemoryKind, site: str) -> Buffer:
        """One buffer on every chip of the mesh; L1 is reserved in all banks alike."""
        self._next_id += 64
        banks = (
            self.spec.dram_banks
            if kind in (MemoryKind.DRAM, MemoryKind.TRACE)
            else self.spec.l1_banks
        )
        block = -(-size // banks // 64) * 64
        buffer = Buffer(self._next_id, size, kind, self.mesh, self._next_id, block * banks, site)
        self.tracker.track_allocate(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Gives it back."""
        self.tracker.track_deallocate(buffer)

    def program(self, name: str, binary: int, cb_sizes: tuple[int, ...], rows: int) -> int:
        """Compiles a program on the first `rows` rows of the grid; it stays in the program cache."""
        self._programs += 1
        number = 100 + self._programs
        columns = self.spec.grid[0]
        cores = ((0, 0, columns - 1, rows - 1),)
        address = self.spec.cb_base
        for size in cb_sizes:
            self.tracker.track_allocate_cb(cores, address, size, False, self.mesh, number)
            address += -(-size // 64) * 64
        self.tracker.track_kernel_load(
            binary, number, self.mesh, num_cores=columns * rows, name=name, cores=cores
        )
        self.tracker.track_binary_status(number, self.mesh, BinaryStatus.IN_FLIGHT)
        self.allocate(-(-binary // 2048) * 2048, MemoryKind.DRAM, "program cache: kernel binaries")
        self.tracker.track_program_dispatch(number, self.mesh, cache_hit=False)
        self.tracker.track_binary_status(number, self.mesh, BinaryStatus.COMMITTED)
        self.tracker.track_cache_entries(self.mesh, self._programs)
        return number

    def dispatch(self, number: int, slot: int) -> None:
        """Runs a cached program again: a slot of the kernel-config ring is written on every core."""
        self.tracker.track_program_dispatch(number, self.mesh, cache_hit=True)
        if self._occupied + slot > self.spec.ring_per_core:
            self._occupied, self._wraps = 0, self._wraps + 1
        self._occupied += slot
        occupied = self._occupied * self.spec.l1_banks
        self.tracker.track_ring(
            self.mesh, occupied, self._wraps, self._wraps, programs=min(7, self._programs)
        )


def _declaration(spec: DeviceSpec, number: int) -> DeviceDeclaration:
    return DeviceDeclaration.from_spec(
        spec, number, str(CHIPS[number]), f"0000:{0x41 + number:02x}:00.0"
    )


def transformer(seconds: float) -> None:
    """Data parallel on four chips: weights, warm-up that fills the program cache, then decoding."""
    app = Application(len(CHIPS))
    end = time.monotonic() + seconds
    app.system_kernels()
    for layer in range(LAYERS):
        app.allocate(218 * MIB, MemoryKind.DRAM, f"load_weights layer {layer}")
        app.allocate(16 * MIB, MemoryKind.DRAM, f"kv_cache layer {layer}")
    app.allocate(24 * MIB, MemoryKind.TRACE, "capture decode trace")
    kinds = (
        ("matmul", 96_256, 4),
        ("softmax", 40_960, 8),
        ("layernorm", 30_720, 10),
        ("rotary", 22_528, 2),
    )
    programs = []
    for shape in range(6):
        for name, binary, rows in kinds:
            sizes = (24_576 + 2048 * shape, 16_384, 8192 + 1024 * shape)
            programs.append(app.program(f"{name}_shape{shape}", binary, sizes, rows))
            _pause(seconds / 120)
    token = 0
    while time.monotonic() < end:
        activation = app.allocate((2 + token % 5) * MIB, MemoryKind.L1, "decode: attention output")
        halo = app.allocate(88 * 1024, MemoryKind.L1_SMALL, "decode: halo")
        for number in programs:
            app.dispatch(number, 5792)
        _pause(0.02)
        app.free(activation)
        app.free(halo)
        token += 1


def serving(seconds: float) -> None:
    """One chip, a cache that grows with every request."""
    app = Application(1)
    end = time.monotonic() + seconds
    app.allocate(900 * MIB, MemoryKind.DRAM, "load embedding model")
    number = app.program("embed", 65_536, (32_768, 4096), 10)
    while time.monotonic() < end:
        app.allocate(3 * MIB, MemoryKind.DRAM, "request: grow cache")
        app.dispatch(number, 3072)
        _pause(0.1)


def _pause(seconds: float) -> None:
    time.sleep(seconds)


WORKLOADS: dict[str, Callable[[float], None]] = {"transformer": transformer, "serving": serving}

if __name__ == "__main__":
    WORKLOADS[sys.argv[1]](float(sys.argv[2]))
    os._exit(0)  # as a crash would: no clean-up is needed for the accounts to be right
