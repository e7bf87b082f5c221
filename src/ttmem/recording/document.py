"""What a recording is, as JSON: `ttmem info --json`."""

from __future__ import annotations

from typing import Any

from ttmem.errors import TtmemError
from ttmem.recording.reader import Info
from ttmem.recording.recording import Recording

SCHEMA = "ttmem.info/1"


def document(recording: Recording, info: Info) -> dict[str, Any]:
    try:
        dropped = recording.dropped_events()
    except TtmemError:  # no state of a damaged recording can be used
        dropped = None
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
        "dropped_events": dropped,
        "key_frames": info.key_frames,
        "telemetry_samples": info.telemetry,
        "unknown_chunks": info.unknown,
        "bytes_by_type": dict(info.bytes_by_type),
        "processes": [
            {
                "pid": process.pid,
                "start_time_ns": process.start_time_ns,
                "user": process.user,
                "command": process.command,
                "devices": sorted(set(process.devices.values())),
                "by_counters": process.serial == 0,
            }
            for process in (*recording.processes, *recording.counted_processes)
        ],
        "markers": [marker._asdict() for marker in recording.markers],
        "damages": [damage._asdict() for damage in info.damages],
        "tail": info.tail,
    }
