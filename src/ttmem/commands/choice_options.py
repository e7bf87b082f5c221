"""Options of every verb that shows a part of a picture: which devices, which processes."""

from __future__ import annotations

import argparse


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """Under one name for all verbs, in the singular and the plural, once or again."""
    parser.add_argument(
        "--device",
        "--devices",
        metavar="ID",
        action="extend",
        type=_ids,
        default=[],
        help="only this device: logical or unique id, T1:N3 on a Galaxy; more with commas, or by giving it again",
    )
    parser.add_argument(
        "--pid", metavar="PID", type=int, action="append", default=[], help="only this process"
    )


def _ids(text: str) -> list[str]:
    found = [one.strip() for one in text.split(",") if one.strip()]
    if not found:
        raise argparse.ArgumentTypeError("no device is named")
    return found
