"""`ttmem ps --by`: live bytes by who made them."""

from __future__ import annotations

import argparse
import sys

from ttmem.snapshots import Snapshot
from ttmem.views.group_table import group_document, render_groups
from ttmem.views.live_groups import live_groups
from ttmem.views.terminal import as_json, spelled, wants_color, width


def grouped_text(options: argparse.Namespace, picture: Snapshot) -> str:
    """The groups as the options want them."""
    grouped = live_groups(picture, options.by)
    if options.json:
        pretty = sys.stdout.isatty() and options.watch is None
        return as_json(group_document(picture, grouped), pretty)
    text = render_groups(
        picture,
        grouped,
        width=width(sys.stdout),
        color=wants_color(sys.stdout, options.no_color),
        chosen=bool(options.device or options.pid),
    )
    return spelled(text, sys.stdout)
