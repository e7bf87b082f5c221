"""Live memory by call stack: speedscope files and collapsed stacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ttmem.exporters.frames import Frame, frames
from ttmem.exporters.pprof import Stack


def _path(stack: Stack, *, with_device: bool) -> tuple[Frame, ...]:
    """From the outermost frame to the op."""
    outer = [f"device {stack.device}"] if with_device else []
    outer += [stack.memory] if with_device else []
    outer += [f"phase {stack.phase}"] if stack.phase else []
    names = [Frame(text, text, None, None) for text in outer]
    op = (Frame(stack.op, stack.op, None, None),) if stack.op else ()
    return (*names, *reversed(frames(stack.site)), *op)


def collapsed(live: Mapping[Stack, tuple[int, int]]) -> str:
    """Lines 'device;memory;frame;frame BYTES', for flamegraph.pl and everything that reads its input."""
    sums: dict[str, int] = defaultdict(int)
    for stack, (_, held) in live.items():
        parts = [frame.text.replace(";", ",") for frame in _path(stack, with_device=True)]
        sums[";".join(parts)] += held
    return "".join(f"{path} {held}\n" for path, held in sorted(sums.items()))


def speedscope(live: Mapping[Stack, tuple[int, int]], name: str) -> dict[str, Any]:
    """One profile for each device and kind of memory, in bytes."""
    numbers: dict[Frame, int] = {}
    profiles: dict[tuple[str, str], dict[tuple[int, ...], int]] = {}
    for stack, (_, held) in sorted(live.items(), key=lambda item: -item[1][1]):
        path = tuple(
            numbers.setdefault(frame, len(numbers)) for frame in _path(stack, with_device=False)
        )
        sums = profiles.setdefault((stack.device, stack.memory), {})
        sums[path] = sums.get(path, 0) + held
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": "ttmem",
        "activeProfileIndex": 0,
        "shared": {"frames": [_speedscope_frame(frame) for frame in numbers]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{memory} of device {device}",
                "unit": "bytes",
                "startValue": 0,
                "endValue": sum(sums.values()),
                "samples": [list(path) for path in sums],
                "weights": list(sums.values()),
            }
            for (device, memory), sums in sorted(profiles.items())
        ],
    }


def _speedscope_frame(frame: Frame) -> dict[str, Any]:
    place = {"file": frame.file, "line": frame.line}
    return {"name": frame.text, **{key: value for key, value in place.items() if value is not None}}
