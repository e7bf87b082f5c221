"""Recommend values for l1_small_size, trace_region_size, worker_l1_size and the KV-cache tokens that fit.

    ttmem size run.ttmem
    ttmem size run.ttmem --kv-site kv_cache --kv-bytes-per-token 131072
    ttmem size run.ttmem --yaml --model llama3.1-8b

For each size: its unit, what the run needed, what the run cannot tell, and what to configure, with a margin.
Figures are those of the device that held the most. Devices of processes that lost events are left out; without others
there is no advice.

exit codes: 0 done, 1 no advice because of losses, 2 wrong arguments, or not a recording
"""

from __future__ import annotations

import argparse
from functools import partial

from ttmem.commands.options import (
    add_output_options,
    add_recording,
    flag,
    open_recording,
    print_answer,
    size,
)
from ttmem.errors import BadInput

MARGIN = 25


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_recording(parser)
    add(
        "--margin",
        metavar="PERCENT",
        type=float,
        default=MARGIN,
        help="margin above what was needed (default 25, more than any overrun known so far)",
    )
    add(
        "--kv-site",
        metavar="TEXT",
        help="the KV cache was allocated by call sites or ops that contain this text",
    )
    add(
        "--kv-phase",
        metavar="NAME",
        help="the KV cache was allocated in this phase; with --kv-site, both must apply",
    )
    add(
        "--kv-bytes-per-token",
        metavar="SIZE",
        type=size,
        help="2 x layers x KV heads x head size x bytes of a value, on one device",
    )
    flag(parser, "--yaml", "print in the form of tt-metal's model_trace_region_sizes.yaml")
    add("--model", metavar="NAME", default="model", help="with --yaml: the name of the model")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.history import History
    from ttmem.analysis.sizing import KvCache, sizes
    from ttmem.views.analysis.size import render_sizes, size_document, yaml_sizes

    if not 0 <= options.margin <= 1000:
        raise BadInput("--margin must be a percentage from 0 to 1000")
    if options.yaml and options.json:
        raise BadInput("--yaml and --json cannot be combined")
    if options.kv_bytes_per_token == 0:
        raise BadInput("--kv-bytes-per-token must be more than 0")
    margin = options.margin / 100
    with open_recording(options.file) as recording:
        found = sizes(
            History(recording),
            margin,
            KvCache(options.kv_site, options.kv_bytes_per_token, options.kv_phase),
        )
    if options.yaml:
        print(yaml_sizes(found, options.model))
    else:
        about = options.file, found, margin
        print_answer(options, lambda: size_document(*about), partial(render_sizes, *about))
    return 0
