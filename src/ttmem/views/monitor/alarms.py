"""What is wrong, in one line: the worst, and how much more there is. Losses stand in the frame."""

from __future__ import annotations

from ttmem.snapshots import Snapshot
from ttmem.views.ink import Line, clip_line, faint, line_columns
from ttmem.views.notes import anomaly_notes, missing_notes
from ttmem.views.source_notes import remark_notes


def alarm_lines(snapshot: Snapshot, width: int) -> list[Line]:
    """One line, or none if all is well."""
    notes = [
        *anomaly_notes(snapshot),
        *remark_notes(snapshot),
        *missing_notes(snapshot),
    ]
    if not notes:
        return []
    more = faint(f"  and {len(notes) - 1:,} more") if len(notes) > 1 else ()
    room = max(width - line_columns(more), 1)
    return [clip_line((*notes[0].line(room), *more), width)]
