"""A language model, replicated on every chip; each answers its own requests (data parallel)."""

from __future__ import annotations

from random import Random

from ttmem.model.mesh import MeshDevice
from ttmem.model.workloads.answers import ONE_TOKEN, answer
from ttmem.model.workloads.decoder import Decoder
from ttmem.model.workloads.scale import Scale, Steps

PROMPTS = (128, 256, 512, 1024)  # prompts are padded to one of these: few shapes, few programs


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Loads, warms up with every shape it will use, then answers requests."""
    model = Decoder(mesh, scale)
    for _ in range(scale.layers):
        model.load_layer()
        yield None
    for length in PROMPTS:
        model.pass_once(length, "dram")
        yield None
    model.pass_once(ONE_TOKEN, "l1")
    yield None
    while True:
        model.pass_once(rng.choice(PROMPTS), "dram")
        yield None
        yield from answer(mesh, model, rng.randint(8, 32))


def warm_up_steps(scale: Scale) -> int:
    """After so many steps all programs are cached."""
    return scale.layers + len(PROMPTS) + 1
