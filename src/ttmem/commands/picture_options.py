"""Options of every verb that shows a picture."""

from __future__ import annotations

import argparse

from ttmem.commands.choice_options import add_choice_options
from ttmem.commands.source_options import add_source_options


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    """Where to ask, and what of it to show."""
    add_source_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    add_choice_options(parser)
    parser.add_argument("--no-color", action="store_true", help="no colour, as with NO_COLOR=1")
