"""Options of every verb that asks for pictures: where from."""

from __future__ import annotations

import argparse


def named(text: str) -> str:
    """A path; an empty one, as of a variable that is not set, would be taken for the usual place."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; leave the option out for the usual place")
    return text


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """A server, or shared memory."""
    parser.add_argument(
        "--socket", metavar="PATH", type=named, help="ask the server at this socket only"
    )
    parser.add_argument(
        "--shm",
        metavar="DIR",
        type=named,
        help="ask no server: read the counters of stock ttnn in this folder",
    )


def add_umd_option(parser: argparse.ArgumentParser) -> None:
    """Nothing else of ttmem touches a chip."""
    parser.add_argument(
        "--umd",
        action="store_true",
        help="also ask the user-mode driver, which talks to the chips: how they are harvested,"
        " and what sensors of remote ones say",
    )
