"""Streams that an enemy, or a broken client, might send."""

from __future__ import annotations

import random
from collections.abc import Callable

from ttmem.events import EVENT, Op
from ttmem.snapshots import DETAILS
from ttmem.wire import frames
from ttmem.wire.frames import Frame
from ttmem.wire.historical import SIZES, Head, encode

EXTREMES = (0, 1, 2, 7, 255, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**40 + 1, 2**63, 2**64 - 1)


def _number(rng: random.Random, bits: int) -> int:
    value = rng.choice(EXTREMES) if rng.random() < 0.3 else rng.randrange(1, 5000)
    return value & ((1 << bits) - 1)


def records(rng: random.Random) -> bytes:
    """Historical records, mostly sensible, of one size."""
    size = rng.choice(SIZES)
    out = []
    for _ in range(rng.randrange(1, 12)):
        device = _number(rng, 31) if rng.random() < 0.1 else rng.randrange(0, 4)
        kind = rng.choice((1, 1, 2, 2, 3, 5, 6, 8, 9, 10, 10, 11, 12, rng.randrange(256)))
        head = Head(kind, device, _number(rng, 64), rng.randrange(6), rng.randrange(1, 70000))
        out.append(encode(size, head._replace(id=rng.randrange(8))))
    return b"".join(out)


def _events(rng: random.Random) -> bytes:
    def one() -> bytes:
        op = rng.choice([*Op, rng.randrange(256)])
        few = rng.randrange(6)
        numbers = (rng.randrange(4), _number(rng, 64), few, _number(rng, 64), rng.randrange(4))
        tail = (_number(rng, 64), _number(rng, 32), rng.randrange(4), 0, rng.randrange(3))
        return EVENT.pack(op, rng.randrange(6), rng.randrange(128), *numbers, *tail)

    return b"".join(one() for _ in range(rng.randrange(1, 30)))


def _document(rng: random.Random) -> object:
    return rng.choice(
        [
            {"logical_id": rng.randrange(5), "unique_id": str(rng.randrange(3)), "l1_banks": 64},
            {"logical_id": _number(rng, 64), "board": "\x1b[31m", "grid": [rng.randrange(99), 3]},
            {"what": "snapshot", "detail": rng.sample(DETAILS, rng.randrange(6))},
            {"what": "snapshot", "detail": rng.choice([None, 3, ["x"], {"buffers": 1}])},
            {"what": "reset_peak", "unique_id": rng.choice([None, 5, "0", []])},
            {
                "pid": -1,
                "role": rng.choice(["application", "monitor", 7, None]),
                "container_pid": {},
            },
            [],
            "text",
            None,
        ]
    )


def framed(rng: random.Random) -> bytes:
    """ttmem's own framing, mostly sensible."""
    out = [frames.preamble(1 if rng.random() < 0.95 else rng.randrange(5))]
    out.append(frames.json_frame(Frame.HELLO, {"pid": 1, "name": "fuzz", "role": "application"}))
    rectangle = (0, 0, rng.randrange(12), rng.randrange(10))
    out.append(frames.cores_frame(1, (rectangle,)))
    out.append(frames.cores_frame(2, ((rng.randrange(40), 0, rng.randrange(40), 2),)))
    makers: list[Callable[[], bytes]] = [
        lambda: frames.frame(Frame.EVENTS, _events(rng)),
        lambda: frames.frame(Frame.EVENTS, _events(rng)),
        lambda: frames.string_frame(rng.randrange(4), "läyer\x00" * rng.randrange(20)),
        lambda: frames.json_frame(Frame(rng.randrange(1, 13)), _document(rng)),
        lambda: frames.frame(rng.choice((Frame.RESYNC_BEGIN, Frame.RESYNC_END))),
        lambda: frames.frame(Frame.LOST, rng.randbytes(16)),
        lambda: frames.HEADER.pack(_number(rng, 32), _number(rng, 32)),
    ]
    out += [rng.choice(makers)() for _ in range(rng.randrange(1, 8))]
    return b"".join(out)


def noise(rng: random.Random) -> bytes:
    """Nothing sensible at all."""
    return rng.randbytes(rng.randrange(1, 600))


def mutated(rng: random.Random, stream: bytes) -> bytes:
    """A few bytes changed, lost, doubled or moved."""
    data = bytearray(stream)
    for _ in range(rng.randrange(1, 6)):
        if not data:
            break
        at = rng.randrange(len(data))
        change = rng.randrange(6)
        if change == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif change == 1:
            data[at] = rng.randrange(256)
        elif change == 2:
            del data[at : at + rng.randrange(1, 80)]
        elif change == 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 80))
        elif change == 4:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        else:
            del data[at:]
    return bytes(data)


def stream(rng: random.Random) -> bytes:
    """One stream: good, mutated, spliced or noise."""
    chance = rng.random()
    if chance < 0.1:
        return noise(rng)
    made = records(rng) if rng.random() < 0.5 else framed(rng)
    if chance < 0.3:
        return made
    if chance < 0.4:
        return made + records(rng)
    return mutated(rng, made)
