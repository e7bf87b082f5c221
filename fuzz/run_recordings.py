"""Mutated recordings against the reader: an answer, or one TtmemError. Half of them have valid checksums."""

from __future__ import annotations

import random
import sys
import tempfile
import traceback
from pathlib import Path

from fuzz.recordings import GOLDEN, golden, sealed
from ttmem.errors import TtmemError
from ttmem.recording import Recording
from ttmem.recording.document import document
from ttmem.snapshots import DETAILS

INSTANTS = ("start", "peak:l1_used", "oom", "#60", "end")


def run(count: int, seed: int) -> int:
    """Exit code 1 if the reader raised something else."""
    chance = random.Random(seed)
    whole = GOLDEN.read_bytes()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.ttmem"
        for number in range(count):
            path.write_bytes(_sealed(chance) if number % 2 else _flipped(whole, chance))
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
            document(recording, recording.info())
            list(recording.batches())
            recording.busiest(recording.instant("start"), recording.instant("end"))
            recording.at(chance.choice(INSTANTS), DETAILS)
    except TtmemError:
        pass


def _flipped(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out[: chance.randrange(1, len(out))] if chance.random() < 0.2 else out)


def _sealed(chance: random.Random) -> bytes:
    """Payloads are changed, and sealed again."""
    return b"".join(
        sealed(header, _flipped(payload, chance) if payload and chance.random() < 0.3 else payload)
        for header, payload in golden()
    )
