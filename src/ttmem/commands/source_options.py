"""Options of every verb that asks for pictures: where from."""

from __future__ import annotations

import argparse


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """A server, or shared memory."""
    parser.add_argument("--socket", metavar="PATH", help="ask the server at this socket only")
    parser.add_argument(
        "--shm", metavar="DIR", help="ask no server: read the counters of stock ttnn in this folder"
    )
