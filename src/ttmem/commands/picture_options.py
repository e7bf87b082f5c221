"""Options of every verb that shows a picture."""

from __future__ import annotations

import argparse

from ttmem.commands.source_options import add_source_options


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Where to ask, and what of it to show."""
    add_source_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument(
        "--device",
        metavar="ID",
        action="append",
        default=[],
        help="only this device: logical or unique id",
    )
    parser.add_argument(
        "--pid", metavar="PID", type=int, action="append", default=[], help="only this process"
    )
    parser.add_argument("--no-color", action="store_true", help="no colour, as with NO_COLOR=1")
