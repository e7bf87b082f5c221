"""Well-sealed recordings that no writer makes: each verb answers, or says in one line what is wrong."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.own_process import ran
from tests.recording.rewriting import rewritten
from ttmem.commands import main
from ttmem.events import EVENT_SIZE, Event, Op
from ttmem.recording import Recording
from ttmem.recording.chunks import MOST_VALUES
from ttmem.recording.format import ChunkType, encode_long

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 2**64 - 1, 2**70, -(2**63), 1e308, float("nan"), -0.5),
    *([], {}, [[]], {"": None}, "1", "", "x" * 20_000, "\x1b[2J", "\u202e", "\ud800", "\0"),
)
NUMBERS = (0, 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
VERBS = (
    *(
        ["info"],
        ["ps"],
        ["ps", "--at", "peak:dram"],
        ["top", "--once"],
        ["dump"],
        ["peak"],
        ["leaks"],
    ),
    *(["dump", "--json"], ["size"], ["explain"], ["cut", "--from", "0s"], ["report"]),
    *(["export", "--to", name] for name in ("csv", "jsonl", "perfetto", "parquet", "pprof")),
    *(["export", "--to", name] for name in ("speedscope", "collapsed", "memory-viz", "visualizer")),
)


def _mutated(value: Any, dice: random.Random, share: float) -> Any:
    if dice.random() < share:
        return dice.choice(ODD)
    if isinstance(value, dict):
        return {key: _mutated(entry, dice, share) for key, entry in value.items()}
    if isinstance(value, list):
        return [_mutated(entry, dice, share) for entry in value]
    return dice.choice(NUMBERS) if type(value) is int and dice.random() < share else value


def _mutation(dice: random.Random) -> Callable[[ChunkType, bytes], bytes]:
    only = dice.choice([None, *ChunkType])

    def change(kind: ChunkType, payload: bytes) -> bytes:
        if only not in (None, kind):
            return payload
        if kind not in (ChunkType.RECORDS, ChunkType.STATE):
            document = _mutated(json.loads(payload), dice, dice.choice((0.002, 0.01, 0.05)))
            return json.dumps(document).encode()
        out = bytearray(payload)
        for _ in range(dice.choice((0, 1, 3, 20)) if out else 0):
            at = dice.randrange(len(out)) & ~7
            out[at : at + 8] = dice.choice(NUMBERS).to_bytes(8, "little")
        return bytes(out[: len(payload)])

    return change


@pytest.mark.parametrize("seed", range(10))
def test_no_verb_ends_with_a_traceback(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(seed)
    path, out = tmp_path / "a.ttmem", tmp_path / "out"
    for verb, *options in VERBS:
        path.write_bytes(rewritten(GOLDEN, _mutation(dice)))
        to = ["-o", str(out)] if verb in ("export", "report", "cut") else []
        assert main([verb, str(path), *options, *to]) in (0, 1, 2, 3, 4)
        shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    capsys.readouterr()


def test_a_mark_of_which_only_the_position_makes_sense_is_shown_without_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(kind: ChunkType, payload: bytes) -> bytes:
        if kind is not ChunkType.MARKS:
            return payload
        return (
            b'[[1,1800000000000000000,"end",{},{},"x"],[1,1180591620717411303424,"mark",1,"",""]]'
        )

    path = tmp_path / "a.ttmem"
    path.write_bytes(rewritten(GOLDEN, change))

    with Recording(str(path)) as recording:
        found = {(mark.kind, mark.pid, mark.device) for mark in recording.markers}
    assert found == {("end", None, None)}
    assert main(["dump", str(path)]) == 0
    capsys.readouterr()


def test_records_that_belong_to_no_batch_are_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(kind: ChunkType, payload: bytes) -> bytes:
        alone = Event(Op.ALLOC, id=1, size=1).pack()
        return alone + payload[EVENT_SIZE:] if kind is ChunkType.RECORDS else payload

    path = tmp_path / "a.ttmem"
    path.write_bytes(rewritten(GOLDEN, change))

    assert main(["cut", str(path), "--from", "0s", "-o", str(tmp_path / "b.ttmem")]) == 0
    assert main(["report", str(path), "-o", str(tmp_path / "b.html")]) == 0
    with Recording(str(path)) as recording:
        assert "its records are no journal" in str(recording.verify()[0])
    capsys.readouterr()


def _bomb(kind: ChunkType, payload: bytes) -> bytes:
    """The golden recording and another document in it."""
    golden = GOLDEN.read_bytes()
    stream = int.from_bytes(golden[48:56], "little")
    return golden + b"".join(encode_long(kind, payload, stream, position=0, time=0))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"[" + b"[]," * (MOST_VALUES // 2) + b"[]]", "has more than 2,500,000 values"),
        (b'["' + b"x" * (65 << 20) + b'"]', "has more than 67,108,864 bytes"),
    ],
)
def test_a_document_larger_than_any_writer_makes_is_named_and_left_out(
    tmp_path: Path, payload: bytes, why: str
) -> None:
    path = tmp_path / "a.ttmem"
    path.write_bytes(_bomb(ChunkType.CONTEXT, payload))
    assert path.stat().st_size < 1 << 16

    command = ['ulimit -v 900000; exec "$@"', "-", sys.executable, "-m", "ttmem"]
    for verb in (["ps"], ["info"]):
        done = ran(["bash", "-c", *command, verb[0], str(path)])
        assert "Traceback" not in done.stderr
        assert "DRAM" in done.stdout or why in done.stdout


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.ttmem"
    path.write_bytes(_bomb(ChunkType.STATE, bytes(400 << 20)))

    command = ['ulimit -v 400000; exec "$@"', "-", sys.executable, "-m", "ttmem", "info"]
    done = ran(["bash", "-c", *command, str(path)])

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "not enough memory" in done.stderr
