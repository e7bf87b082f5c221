"""`ttmem ps --by`: live bytes by who made them."""

from __future__ import annotations

import argparse
import sys

from ttmem.snapshots import Snapshot, to_json
from ttmem.sources.probe_folder import has_regions, probe_folder
from ttmem.views.group_table import group_document, render_groups
from ttmem.views.idle import without_idle
from ttmem.views.ink import paint
from ttmem.views.live_groups import live_groups
from ttmem.views.note import note_lines
from ttmem.views.source_notes import remark_notes
from ttmem.views.terminal import as_json, spelled, wants_color, width


def grouped_text(options: argparse.Namespace, picture: Snapshot) -> str:
    """The groups as the options want them."""
    grouped = live_groups(picture, options.by)
    if options.json:
        pretty = sys.stdout.isatty() and options.watch is None
        document = group_document(picture, grouped)
        return as_json({**document, "remarks": to_json(picture)["remarks"]}, pretty)
    room, color = width(sys.stdout), wants_color(sys.stdout, options.no_color)
    chosen = bool(options.device or options.pid)
    text = render_groups(
        picture if chosen else without_idle(picture)[0],
        grouped,
        width=room,
        color=color,
        chosen=chosen,
        recorded=_recorded(options, picture),
    )
    remarks = paint(note_lines(remark_notes(picture), room), room, color)
    return spelled("\n\n".join(part for part in (text, remarks) if part), sys.stdout)


def _recorded(options: argparse.Namespace, picture: Snapshot) -> dict[int, bool]:
    folder = probe_folder(options.shm)
    if not has_regions(folder):
        return {}
    from ttmem.analysis.recorded_sites import recorded_sites

    return recorded_sites(folder, {process.pid for process in picture.processes})
