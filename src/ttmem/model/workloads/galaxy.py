"""One model on all chips of a Galaxy; every chip has a part of each layer (tensor parallel)."""

from __future__ import annotations

from random import Random

from ttmem.model.mesh import MeshDevice
from ttmem.model.workloads.answers import ONE_TOKEN, answer
from ttmem.model.workloads.decoder import Decoder
from ttmem.model.workloads.scale import Scale, Steps

PROMPTS = (128, 512)
MOST_PARTS = 8  # chips of one row or column that share a layer; the others have copies


def run(mesh: MeshDevice, rng: Random, scale: Scale) -> Steps:
    """Load and warm up, then alternate prefill and decode."""
    model = Decoder(mesh, scale, parts=min(MOST_PARTS, mesh.shape[0]))
    for _ in range(scale.layers):
        model.load_layer()
        yield None
    for count in (*PROMPTS, ONE_TOKEN):
        model.pass_once(count, "l1" if count == ONE_TOKEN else "dram")
        yield None
    while True:
        model.pass_once(rng.choice(PROMPTS), "dram")
        yield None
        yield from answer(mesh, model, rng.randint(8, 32))
