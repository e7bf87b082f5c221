"""Mutated recordings against the reader: an answer, or one TtmemError. Half of them have valid checksums."""

from __future__ import annotations

import random
import sys
import tempfile
import traceback
from pathlib import Path

from ttmem._native import transposed
from ttmem.errors import TtmemError
from ttmem.events import EVENT_SIZE
from ttmem.recording import Recording
from ttmem.recording.format import (
    HEADER_SIZE,
    ChunkType,
    Header,
    decode,
    encode,
)
from ttmem.snapshots import DETAILS

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "recordings" / "version-1.ttmem"
INSTANTS = ("start", "peak:l1_used", "oom", "#60", "end")


def run(count: int, seed: int) -> int:
    """Exit code 1 if the reader raised something else."""
    chance = random.Random(seed)
    whole = GOLDEN.read_bytes()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.ttmem"
        for number in range(count):
            path.write_bytes(_sealed(whole, chance) if number % 2 else _flipped(whole, chance))
            try:
                _read(path, chance)
            except Exception:
                faults += 1
                traceback.print_exc()
                print(f"recordings: input {number} of seed {seed}", file=sys.stderr)
    print(f"recordings: {count:,} mutated files, {faults} faults")
    return int(faults > 0)


def _read(path: Path, chance: random.Random) -> None:
    try:
        with Recording(str(path)) as recording:
            recording.verify()
            list(recording.batches())
            recording.at(chance.choice(INSTANTS), DETAILS)
    except TtmemError:
        pass


def _flipped(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out[: chance.randrange(1, len(out))] if chance.random() < 0.2 else out)


def _sealed(data: bytes, chance: random.Random) -> bytes:
    """Payloads are changed, and sealed again."""
    out, at = [], 0
    while at < len(data):
        header = Header.unpack(data[at : at + HEADER_SIZE])
        payload = decode(header, data[at + HEADER_SIZE : at + HEADER_SIZE + header.stored])
        at += HEADER_SIZE + header.stored
        if payload and chance.random() < 0.3:
            payload = _flipped(payload, chance)
        kind, records = ChunkType(header.type), 0
        if kind is ChunkType.RECORDS:
            records = len(payload) // EVENT_SIZE
            payload = transposed(payload[: records * EVENT_SIZE], EVENT_SIZE)
        out.append(
            encode(
                kind,
                payload,
                header.stream,
                position=header.position,
                records=records,
                first=header.first,
                last=header.last,
            )
        )
    return b"".join(out)
