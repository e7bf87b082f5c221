"""`ttmem ps --by`: live bytes by who made them."""

from __future__ import annotations

import argparse
import sys

from ttmem.snapshots import Snapshot
from ttmem.sources.probe_folder import has_regions, probe_folder
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
        recorded=_recorded(options, picture),
    )
    return spelled(text, sys.stdout)


def _recorded(options: argparse.Namespace, picture: Snapshot) -> dict[int, bool]:
    folder = probe_folder(options.shm)
    if not has_regions(folder):
        return {}
    from ttmem.analysis.recorded_sites import recorded_sites

    return recorded_sites(folder, {process.pid for process in picture.processes})
