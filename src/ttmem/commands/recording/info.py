"""Describe a recording, and verify it.

    ttmem info run.ttmem

Reads the whole file, verifies every checksum and lists damaged parts; views and exports skip them.

exit codes: 0 the file is intact, 1 parts of it are damaged, 2 wrong arguments, or not a recording
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from ttmem.commands.options import add_recording, flag
from ttmem.errors import TtmemError
from ttmem.sizes import human, several
from ttmem.text import clean
from ttmem.views.terminal import as_json

if TYPE_CHECKING:
    from ttmem.recording import Info, Recording

SECOND_NS = 1_000_000_000
MOST_DAMAGES = 20
KINDS = {
    "phase": ("phase", "phases"),
    "failure": ("failed allocation", "failed allocations"),
    "start": ("process start", "process starts"),
    "end": ("process end", "process ends"),
    "mark": ("mark", "marks"),
}


def prepare(parser: argparse.ArgumentParser) -> None:
    add_recording(parser)
    flag(parser, "--json", "print JSON instead of text")


def run(options: argparse.Namespace) -> int:
    from ttmem.recording import Recording
    from ttmem.recording.document import document

    with Recording(options.file) as recording:
        recording.verify()
        info = recording.info()
        if options.json:
            print(as_json(document(recording, info), sys.stdout.isatty()))
        else:
            print("\n".join(clean(line) for line in _lines(recording, info)))
    return 1 if info.damages else 0


def _lines(recording: Recording, info: Info) -> list[str]:
    records = info.end - info.first - info.lost
    about = info.recorded
    of_records = info.bytes_by_type["records"]
    each = f", {of_records / records:.1f} B each" if records else ""
    frames = info.bytes_by_type["state"] + info.bytes_by_type["context"]
    lines = [
        f"{info.name}: recording of ttmem {about.get('ttmem', 'N/A')}, format {info.version}",
        f"  host       {about.get('host', 'N/A')}",
        f"  command    {about.get('command') or 'N/A'}",
        f"  time       {_clock(info.started_ns)}, {(info.ended_ns - info.started_ns) / SECOND_NS:,.3f} s",
        f"  records    {records:,}{each}; {info.lost:,} lost{_never_recorded(recording)}",
        f"  size       {human(info.bytes)}: {human(of_records)} records, {human(frames)}"
        f" {several(info.key_frames, 'key frame')} and context, {human(info.bytes_by_type['strings'])} strings",
    ]
    if recording.selection:
        lines.append(
            f"  devices    only {', '.join(recording.selection)}, as selected with --device"
        )
    for process in (*recording.processes, *recording.counted_processes):
        devices = ", ".join(sorted(set(process.devices.values()))) or "no device"
        how = "" if process.serial else ", by counters"
        lines.append(f"  process    pid {process.pid}, {process.command or 'N/A'} ({devices}{how})")
    counts = Counter(marker.kind for marker in recording.markers)
    if counts["failure"]:
        counts["failure"] = len(recording.failures)  # a mesh has a marker for each chip
    found = [several(count, *KINDS.get(kind, (kind, kind))) for kind, count in counts.items()]
    lines.append(f"  markers    {', '.join(found) or 'none'}")
    lines.append(f"  telemetry  {several(info.telemetry, 'sample') if info.telemetry else 'none'}")
    if info.unknown:
        what = several(info.unknown, "chunk")
        lines.append(f"  unknown    {what} of a later version of ttmem, not used")
    ending = "not closed: its writer was killed, or still writes"
    if info.closed:
        ending = "the writer closed it"
    elif recording.growing:
        ending = "still being written"
    lines.append(f"  end        {ending}{f'; {info.tail}' if info.tail else ''}")
    lines.append(f"  damage     {_damage(info)}")
    lines += [f"    {damage}" for damage in info.damages[:MOST_DAMAGES]]
    return lines


def _never_recorded(recording: Recording) -> str:
    with suppress(TtmemError):  # no state of a damaged recording can be used
        if dropped := recording.dropped_events():
            return f"; {several(dropped, 'event')} were lost before, by their program or reader"
    return ""


def _damage(info: Info) -> str:
    if info.damages:
        return several(len(info.damages), "part")
    return "none before the end, which is torn" if info.tail else "none"


def _clock(time_ns: int) -> str:
    try:
        return datetime.fromtimestamp(time_ns / SECOND_NS).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return "N/A"
