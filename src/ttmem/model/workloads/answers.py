"""Decoding in a language model: one token after another, from a trace if one fits."""

from __future__ import annotations

from ttmem.model.mesh import MeshDevice
from ttmem.model.tensor import Temporaries
from ttmem.model.traces import (
    begin_trace_capture,
    end_trace_capture,
    execute_trace,
    release_trace,
)
from ttmem.model.workloads.decoder import Decoder
from ttmem.model.workloads.scale import Steps

ONE_TOKEN = 32  # users in a batch, each with its next token: one tile of rows


def answer(mesh: MeshDevice, model: Decoder, tokens: int) -> Steps:
    """One token per step. The model must have decoded before, because a trace cannot load programs."""
    if mesh.spec.trace_bank_size:
        return _replay(mesh, model, tokens)
    return _decode(model, tokens)


def _decode(model: Decoder, tokens: int) -> Steps:
    for _ in range(tokens):
        model.pass_once(ONE_TOKEN, "l1")
        yield None


def _replay(mesh: MeshDevice, model: Decoder, tokens: int) -> Steps:
    """One pass is captured and replayed for each token; its input and output stay where they are."""
    with Temporaries() as keep:
        token = keep(model.tokens(ONE_TOKEN))
        trace = begin_trace_capture(mesh)
        keep(model.forward(token, "l1"))
        end_trace_capture(mesh, trace)
        for _ in range(tokens):
            execute_trace(mesh, trace)
            yield None
        release_trace(mesh, trace)
