"""Describe a recording, and verify it.

    ttmem info run.ttmem

Reads the whole file and checks every checksum. A damaged part is named, and costs no more than itself: all views and
exports use the rest.

exit codes: 0 the file is intact, 1 parts of it are damaged, 2 wrong arguments, or no recording
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ttmem.commands.options import path
from ttmem.sizes import human, several
from ttmem.text import clean
from ttmem.views.terminal import as_json

if TYPE_CHECKING:
    from ttmem.recording import Info, Recording

SCHEMA = "ttmem.info/1"
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
    parser.add_argument("file", metavar="FILE", type=path, help="a recording")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(options: argparse.Namespace) -> int:
    from ttmem.recording import Recording

    with Recording(options.file) as recording:
        recording.verify()
        info = recording.info()
        if options.json:
            print(as_json(_document(recording, info), sys.stdout.isatty()))
        else:
            print("\n".join(clean(line) for line in _lines(recording, info)))
    return 1 if info.damages else 0


def _document(recording: Recording, info: Info) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "file": info.name,
        "bytes": info.bytes,
        "format": info.version,
        "recorded": dict(info.recorded),
        "started_ns": info.started_ns,
        "ended_ns": info.ended_ns,
        "closed": info.closed,
        "positions": [info.first, info.end],
        "lost_records": info.lost,
        "key_frames": info.key_frames,
        "bytes_by_type": dict(info.bytes_by_type),
        "processes": [
            {
                "pid": process.pid,
                "start_time_ns": process.start_time_ns,
                "user": process.user,
                "command": process.command,
                "devices": sorted(set(process.devices.values())),
            }
            for process in recording.processes
        ],
        "markers": [marker._asdict() for marker in recording.markers],
        "damages": [damage._asdict() for damage in info.damages],
        "tail": info.tail,
    }


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
        f"  records    {records:,}{each}; {info.lost:,} lost",
        f"  size       {human(info.bytes)}: {human(of_records)} records, {human(frames)}"
        f" {several(info.key_frames, 'key frame')} and context, {human(info.bytes_by_type['strings'])} strings",
    ]
    for process in recording.processes:
        devices = ", ".join(sorted(set(process.devices.values()))) or "no device"
        lines.append(f"  process    pid {process.pid}, {process.command or 'N/A'} ({devices})")
    counts = Counter(marker.kind for marker in recording.markers)
    found = [several(count, *KINDS.get(kind, (kind, kind))) for kind, count in counts.items()]
    lines.append(f"  markers    {', '.join(found) or 'none'}")
    ending = (
        "the writer closed it"
        if info.closed
        else "not closed: its writer was killed, or still writes"
    )
    lines.append(f"  end        {ending}{f'; {info.tail}' if info.tail else ''}")
    lines.append(f"  damage     {several(len(info.damages), 'part') if info.damages else 'none'}")
    lines += [f"    {damage}" for damage in info.damages[:MOST_DAMAGES]]
    return lines


def _clock(time_ns: int) -> str:
    try:
        return datetime.fromtimestamp(time_ns / SECOND_NS).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return "N/A"
