"""Answers requests on four chips: weights, a growing KV cache, and results that are kept too long."""

import sys
import time

import ttmem
import ttnn

LAYERS, HIDDEN, TOKENS = 16, 4096, 256
mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 4), l1_small_size=32768, trace_region_size=16 << 20)


def tensor(*shape, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.empty((1, 1, *shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, mesh, memory)


def load():
    weights = [tensor(HIDDEN, 4 * HIDDEN) for _ in range(LAYERS)]
    projections = [tensor(4 * HIDDEN, HIDDEN) for _ in range(LAYERS)]
    return list(zip(weights, projections, strict=True))


def layer(states, weights, projection):
    wide = ttnn.gelu(ttnn.matmul(states, weights))
    return ttnn.add(ttnn.matmul(wide, projection), states, memory_config=ttnn.L1_MEMORY_CONFIG)


with ttmem.phase("load"):
    model = load()

cache, answers = [], []
for request in range(int(sys.argv[1])):
    with ttmem.phase("prefill"):
        cache.append(tensor(32 * 1024, HIDDEN))
        states = tensor(TOKENS * (1 + request % 3), HIDDEN, memory=ttnn.L1_MEMORY_CONFIG)
    with ttmem.phase("decode"):
        for weights, projection in model:
            states = layer(states, weights, projection)
    answers.append(ttnn.relu(states))
    if len(cache) == 48:
        del cache[:32]
    if len(answers) == 16:
        answers.clear()
    time.sleep(0.4)
