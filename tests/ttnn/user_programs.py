"""Programs as users write them, run as files of their own: nothing in them knows of the probe but its phases."""

from __future__ import annotations

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
