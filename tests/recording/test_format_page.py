"""A reader that knows nothing but docs/recording-format.md finds what ttmem finds."""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ttmem.events import Notice, Op
from ttmem.events.record import BLANK, Control, Flag
from ttmem.recording import Recording
from ttmem.recording.format import ChunkType

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "recordings" / "version-1.ttmem"
PAGE = (ROOT / "docs" / "recording-format.md").read_text("utf-8")
WIRE = (ROOT / "docs" / "wire-protocol.md").read_text("utf-8")
_WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Piece(NamedTuple):
    """A chunk: the fields of its header by name, and its payload."""

    fields: dict[str, int]
    payload: bytes


def chunks(data: bytes) -> Iterator[Piece]:
    """By the table of the header."""
    section = PAGE.split("## Chunk")[1].split("## Types")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", section, re.MULTILINE)
    size = int(rows[-1][0]) + int(rows[-1][1])
    at = 0
    while at < len(data):
        fields = {
            name: int.from_bytes(data[at + int(offset) : at + int(offset) + int(width)], "little")
            for offset, width, name in rows
        }
        stored = data[at + size : at + size + fields["stored"]]
        assert data[at : at + 4] == bytes.fromhex("F7 54 54 4D")
        assert zlib.crc32(data[at : at + 60]) == fields["header"]
        assert zlib.crc32(stored) == fields["payload"]
        payload = zstd.decompress(stored) if fields["flags"] & 1 else stored
        assert len(payload) == fields["raw"]
        yield Piece(fields, payload)
        at += size + len(stored)


def records(payload: bytes) -> Iterator[dict[str, int]]:
    """By the table of events."""
    rows = re.findall(r"^\| (\d+) \| u(\d+) \| (\w+) \|", WIRE.split("### Events")[1], re.MULTILINE)
    fields = [(name, int(offset), int(bits) // 8) for offset, bits, name in rows]
    layout = struct.Struct("<" + "".join(_WIDTHS[width] for _, _, width in fields))
    count = len(payload) // layout.size
    turned = bytes(
        payload[plane * count + number] for number in range(count) for plane in range(64)
    )
    for values in layout.iter_unpack(turned):
        yield dict(zip([name for name, _, _ in fields], values, strict=True))


def test_it_finds_the_same_events_and_processes() -> None:
    types = dict(re.findall(r"^\| (\d+) \| ([A-Z]+) \|", PAGE.split("## Types")[1], re.MULTILINE))
    controls = dict(re.findall(r"^\| (1\d\d) \| ([A-Z_0-9]+) \|", PAGE, re.MULTILINE))
    known: dict[str, Any] = {}
    names: dict[str, dict[str, str]] = {}
    events: list[tuple[int, int, int, int, str]] = []
    for fields, payload in chunks(GOLDEN.read_bytes()):
        kind = types[str(fields["type"])]
        if kind == "ACCOUNTS":
            known |= json.loads(payload)
        elif kind == "STRINGS":
            for serial, texts in json.loads(payload).items():
                names.setdefault(serial, {}).update(texts)
        elif kind == "RECORDS":
            left, batch = 0, dict[str, int]()
            for number, record in enumerate(records(payload)):
                if left:
                    left -= 1
                    serial = str(batch["extra"])
                    name = names.get(serial, {}).get(str(record["name"]), "")
                    pid = known[serial]["pid"]
                    position = fields["position"] + number
                    events.append((position, pid, record["op"], record["size"], name))
                elif controls[str(record["op"])] == "BATCH":
                    batch, left = record, record["size"]
                elif controls[str(record["op"])] == "DEFINE_CORES":
                    raise AssertionError("the golden file has none")

    with Recording(str(GOLDEN)) as recording:
        expected = [
            (
                batch.position + at // 64,
                batch.process.pid,
                batch.events[at],
                int.from_bytes(batch.events[at + 24 : at + 32], "little"),
                batch.process.strings.get(
                    int.from_bytes(batch.events[at + 56 : at + 60], "little"), ""
                ),
            )
            for batch in recording.batches()
            for at in range(0, len(batch.events), 64)
        ]
    assert events == expected
    assert len(events) > 50


def test_the_page_has_every_type_op_and_flag() -> None:
    ops = WIRE.split("### Events")[1] + PAGE
    for number in (*Op, *Notice, *Control):
        assert re.search(rf"\| {int(number)} \| {number.name}\b", ops), number
    for flag in Flag:
        assert re.search(rf"\| {int(flag)} \| {flag.name} \|", ops), flag
    for kind in ChunkType:
        assert re.search(rf"\| {int(kind)} \| {kind.name} \|", PAGE), kind
    assert f"| {BLANK} | blank |" in PAGE
