"""Advise on the sizes that you choose: l1_small_size, trace_region_size, worker_l1_size, KV-cache tokens.

    ttmem size run.ttmem
    ttmem size run.ttmem --kv-site kv_cache --kv-bytes-per-token 131072
    ttmem size run.ttmem --yaml --model llama3.1-8b

Each with its unit, what the run needed, what it could not show, and what to configure, with a margin. It is about the
device that held most. A recording with losses gets no advice.

exit codes: 0 done, 1 no advice because of losses, 2 wrong arguments, or no recording
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.options import add_output_options, path, size
from ttmem.errors import BadInput
from ttmem.views.terminal import as_json, spelled, wants_color, width

MARGIN = 25


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="a recording")
    parser.add_argument(
        "--margin",
        metavar="PERCENT",
        type=float,
        default=MARGIN,
        help="above what was needed (default 25: it covers every overrun that is on record)",
    )
    parser.add_argument(
        "--kv-site",
        metavar="TEXT",
        help="the KV cache is what a call site or op with this text made",
    )
    parser.add_argument(
        "--kv-bytes-per-token",
        metavar="SIZE",
        type=size,
        help="2 x layers x KV heads x head size x bytes of a value, on one device",
    )
    parser.add_argument(
        "--yaml", action="store_true", help="print as in tt-metal's model_trace_region_sizes.yaml"
    )
    parser.add_argument("--model", metavar="NAME", default="model", help="its name, for --yaml")
    add_output_options(parser)


def run(options: argparse.Namespace) -> int:
    from ttmem.analysis.history import History
    from ttmem.analysis.sizing import KvCache, sizes
    from ttmem.recording import Recording
    from ttmem.views.size import render_sizes, size_document, yaml_sizes

    if not 0 <= options.margin <= 1000:
        raise BadInput("--margin is a percentage from 0 to 1000")
    if options.yaml and options.json:
        raise BadInput("--yaml and --json are two forms of the answer; give one of them")
    if options.kv_bytes_per_token == 0:
        raise BadInput("--kv-bytes-per-token must be more than 0")
    margin = options.margin / 100
    with Recording(options.file) as recording:
        found = sizes(
            History(recording), margin, KvCache(options.kv_site, options.kv_bytes_per_token)
        )
    if options.json:
        print(as_json(size_document(options.file, found, margin), sys.stdout.isatty()))
    elif options.yaml:
        print(yaml_sizes(found, options.model))
    else:
        text = render_sizes(
            options.file,
            found,
            margin,
            width=width(sys.stdout),
            color=wants_color(sys.stdout, options.no_color),
        )
        print(spelled(text, sys.stdout))
    return 0
