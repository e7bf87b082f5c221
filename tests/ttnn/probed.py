"""A session under the probe: its region beside what the runtime says of itself."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.ttnn.bench.answers import Views
from tests.ttnn.bench.boards import Sizes
from tests.ttnn.bench.machine import Machine
from tests.ttnn.bench.session import Session
from ttmem.events import MemoryKind
from ttmem.probe import environment
from ttmem.probe.layout import LiveType
from ttmem.sources.probe.region import ProbeRegion
from ttmem.sources.probe.region_file import find_regions
from ttmem.wire.frames import Rectangle

SIZES = Sizes(l1_small_size=32_768, trace_region_size=1 << 20)
KINDS = {
    "dram": MemoryKind.DRAM,
    "l1": MemoryKind.L1,
    "l1_small": MemoryKind.L1_SMALL,
    "trace": MemoryKind.TRACE,
}


def start(
    there: Machine, *, opened: bool = True, worker_dispatch: bool = False, **variables: str
) -> Session:
    """A session whose region lies in the machine's own folder."""
    folder = {"TTMEM_REGION_DIR": str(there.folder)}
    preload = environment({"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")})
    return there.session(
        SIZES,
        opened=opened,
        worker_dispatch=worker_dispatch,
        variables=preload | folder | variables,
    )


def region_of(there: Machine, session: Session) -> ProbeRegion:
    """The region of that session's process."""
    session.run("None")  # it has one when its device is open
    found = [name for name in find_regions(str(there.folder)) if name.pid == session.pid]
    return ProbeRegion(found[0].path)


def by_runtime(seen: Views) -> dict[str, int]:
    """Reserved bytes of a chip, as the runtime's memory view has them."""
    return {
        kind: view["total_bytes_allocated_per_bank"] * view["num_banks"]
        for kind, view in seen["kinds"].items()
    }


def by_probe(region: ProbeRegion) -> list[dict[str, int]]:
    """The same of every chip, as the probe counted them."""
    return [
        {kind: row[number].reserved for kind, number in KINDS.items()} for row in region.counters()
    ]


def addresses(seen: Views) -> Counter[tuple[str, int]]:
    """Where the runtime says that buffers are."""
    chips = {buffer["device_id"] for buffer in seen["buffers"]}
    return Counter(
        (buffer["buffer_type"], buffer["address"])
        for buffer in seen["buffers"]
        if buffer["device_id"] == min(chips)
    )


def live_addresses(region: ProbeRegion) -> Counter[tuple[str, int]]:
    """Where the probe saw them."""
    return Counter(
        (MemoryKind(thing.kind).name, thing.address)
        for thing in region.live()
        if thing.type is LiveType.BUFFER
    )


def per_core(region: ProbeRegion, cores: dict[int, list[Rectangle]]) -> Counter[tuple[int, int]]:
    """Circular and dataflow buffers of live programs: bytes on each core."""
    held: Counter[tuple[int, int]] = Counter()
    for thing in region.live():
        if thing.type is not LiveType.CIRCULAR_BUFFER or thing.flags & 2:
            continue
        places = [
            (x, y)
            for x0, y0, x1, y1 in cores[thing.cores]
            for x in range(x0, x1 + 1)
            for y in range(y0, y1 + 1)
        ]
        for place in places:
            held[place] += thing.requested // len(places)
    return held


Machines = Callable[[str], Machine]


# -- Two small models in ttnn operations, to be run in the child: a transformer and a convolutional network


WIDTH, TOKENS = 256, 128


class Models:
    """Counts the operations that it calls; what it keeps is what a model keeps: weights and a cache."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self.ttnn = ttnn
        self.device = device
        self.operations = 0
        self.grid = ttnn.CoreGrid(x=4, y=4)
        self.weights = [self._tensor((WIDTH, WIDTH)) for _ in range(4)]
        self.filter = ttnn.zeros((32, 32, 3, 3), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
        self.kept: list[Any] = []

    def _tensor(self, shape: tuple[int, ...], rows: bool = False) -> Any:
        layout = self.ttnn.ROW_MAJOR_LAYOUT if rows else self.ttnn.TILE_LAYOUT
        memory = self.ttnn.DRAM_MEMORY_CONFIG
        full = (1,) * (4 - len(shape)) + shape
        return self.ttnn.allocate_tensor_on_device(
            self.ttnn.Shape(full), self.ttnn.bfloat16, layout, self.device, memory
        )

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        self.operations += 1
        return getattr(self.ttnn, name)(*arguments, **options)

    def _times(self, left: Any, right: Any, memory: Any = None) -> Any:
        return self._call(
            "matmul", left, right, core_grid=self.grid, memory_config=memory or left.memory_config()
        )

    def transformer_layer(self) -> None:
        """Attention and a feed-forward part; intermediate tensors live in L1 and die with the layer."""
        query, key, up, down = self.weights
        states = self._tensor((TOKENS, WIDTH))
        asked = self._times(states, query, self.ttnn.L1_MEMORY_CONFIG)
        kept = self._times(states, key)
        scores = self._times(asked, self._call("transpose", kept, -2, -1))
        weights = self._call("softmax", scores, dim=-1)
        mixed = self._call("add", self._times(weights, kept), asked)
        wide = self._call("relu", self._times(mixed, up, self.ttnn.L1_MEMORY_CONFIG))
        self._call("deallocate", mixed)
        self._call("multiply", self._times(wide, down), 0.5)
        self.kept.append(kept)
        if len(self.kept) > 8:
            self._call("deallocate", self.kept.pop(0))

    def convolution_block(self) -> None:
        """A convolution, its activation and a pool."""
        image = self._tensor((1, 1, 16 * 16, 32), rows=True)
        size = {"batch_size": 1, "kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
        made = self._call(
            "conv2d",
            input_tensor=image,
            weight_tensor=self.filter,
            device=self.device,
            in_channels=32,
            out_channels=32,
            input_height=16,
            input_width=16,
            **size,
        )
        self._call("relu", made)
        self._call(
            "max_pool2d",
            input_tensor=image,
            batch_size=1,
            input_h=16,
            input_w=16,
            channels=32,
            kernel_size=[2, 2],
            stride=[2, 2],
            padding=[0, 0],
            dilation=[1, 1],
        )


# -- Programs as users write them, run as files of their own: nothing in them knows of the probe but its phases


MODEL = """\
import json
import sys

import ttnn

import ttmem

WIDTH, TOKENS = 256, 128


def tensor(*shape, layout=ttnn.TILE_LAYOUT):
    return ttnn.empty(shape, ttnn.bfloat16, layout, device, ttnn.DRAM_MEMORY_CONFIG)


def attention(states, query, key):
    asked = ttnn.matmul(states, query, memory_config=ttnn.L1_MEMORY_CONFIG)
    kept = ttnn.matmul(states, key)
    turned = ttnn.transpose(kept, -2, -1)
    scores = ttnn.softmax(ttnn.matmul(asked, turned), dim=-1)
    mixed = ttnn.matmul(scores, kept)
    made = ttnn.add(mixed, states)
    view = ttnn.get_memory_view(device, ttnn.BufferType.DRAM)
    global most
    most = max(most, view.total_bytes_allocated_per_bank * view.num_banks)
    return kept, made


def convolution(image, weight):
    made, _ = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=weight,
        device=device,
        in_channels=32,
        out_channels=32,
        batch_size=1,
        input_height=16,
        input_width=16,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        return_output_dim=True,
    )
    return ttnn.relu(made)


device = ttnn.open_mesh_device(
    ttnn.MeshShape(1, int(sys.argv[1])), l1_small_size=32768, trace_region_size=1 << 20
)
with ttmem.phase("load"):
    weights = [tensor(1, 1, WIDTH, WIDTH) for _ in range(2)]
    filters = ttnn.zeros((32, 32, 3, 3), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
cache, most = [], 0
with ttmem.phase("decode"):
    for _ in range(3):
        kept, states = attention(tensor(1, 1, TOKENS, WIDTH), *weights)
        cache.append(kept)
with ttmem.phase("vision"):
    image = convolution(tensor(1, 1, 16 * 16, 32, layout=ttnn.ROW_MAJOR_LAYOUT), filters)
del states, image
print(json.dumps({"most": most}))
ttnn.close_mesh_device(device)
"""

# Fills L1 with tensors, frees every second one, and asks for more than the holes have; prints the exception.
OUT_OF_MEMORY = """\
import ttnn


def tensor(rows):
    memory = ttnn.L1_MEMORY_CONFIG
    return ttnn.empty((1, 1, rows, 1024), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def fill(kept):
    try:
        while True:
            kept.append(tensor(4096))
    except RuntimeError as problem:
        print(problem, flush=True)


device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))
kept = []
fill(kept)
del kept[::2]
try:
    tensor(4096 * 8)
except RuntimeError as problem:
    print(problem, flush=True)
kept.clear()
raise SystemExit(3)
"""

# Leaves 43 KiB of L1 on each core, and then asks for an op that needs more for its circular buffers.
CLASH = """\
import ttnn


def tensor(shape, memory):
    return ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))
asked = tensor((1, 1, 4096, 4096), ttnn.DRAM_MEMORY_CONFIG)
held = [tensor((1, 1, 2048, 1024), ttnn.L1_MEMORY_CONFIG) for _ in range(36)]
ttnn.softmax(asked)
"""


# A buffer whose lowest address lies 1,600 B below the end of what softmax wants on each core.
NARROW_CLASH = """\
import json
import re

import ttnn


def hold(per_bank):
    return ttnn.empty((110, per_bank // 2), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)


def gate(scores):
    return ttnn.softmax(scores)


device = ttnn.open_mesh_device(ttnn.MeshShape(1, 1))
shape = (1, 1, 4096, 4096)
scores = ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
full = hold(1_400_000)
top = full.buffer_address() + 1_400_000
try:
    gate(scores)
except RuntimeError as clash:
    end = int(re.search(r"region ends at (\\d+)", str(clash))[1])
ttnn.deallocate(full)
kept = hold(top - (end - 1600))
print(json.dumps([end, kept.buffer_address()]), flush=True)
try:
    gate(scores)
except RuntimeError:
    pass
"""
