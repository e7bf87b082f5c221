"""Changes to the region of a watched process, as a broken disk, a bug or an enemy would make them."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

from fuzz.streams import EXTREMES

HEADER_IN_USE = 1024


def _used_words(data: bytes) -> list[int]:
    """Where something is written: the rest of a region is zeroes, and hardly worth a change."""
    words = range(0, len(data), 8)
    return [at for at in words if data[at : at + 8] != bytes(8)]


@dataclass
class Bench:
    """One file that is changed and put right again: it is 3 MB, of which a few words differ each time."""

    path: Path
    sound: bytes

    def __post_init__(self) -> None:
        self.path.write_bytes(self.sound)
        self._used = _used_words(self.sound)
        self._changed: list[int] = []

    def change(self, rng: random.Random) -> None:
        """Some words replaced or moved, mostly where it hurts; now and then the file cut."""
        with self.path.open("r+b") as file:
            for _ in range(rng.randrange(1, 9)):
                at = self._place(rng)
                file.seek(at)
                file.write(self._word(rng, at))
            if rng.random() < 0.02:
                file.truncate(rng.randrange(len(self.sound)))

    def restore(self) -> None:
        """As it was."""
        with self.path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != len(self.sound):
                file.write(self.sound)
            else:
                for at in self._changed:
                    file.seek(at)
                    file.write(self.sound[at : at + 8])
        self._changed.clear()

    def _place(self, rng: random.Random) -> int:
        at = rng.choice(self._used) if rng.random() < 0.6 else 4 * rng.randrange(HEADER_IN_USE // 4)
        if rng.random() < 0.1:
            at = rng.randrange(len(self.sound) - 8)
        self._changed.append(at)
        return at

    def _word(self, rng: random.Random, at: int) -> bytes:
        chance = rng.random()
        if chance < 0.4:
            return rng.choice(EXTREMES).to_bytes(8, "little")
        if chance < 0.6:
            other = rng.choice(self._used)
            return self.sound[other : other + 8]
        if chance < 0.8:
            word = int.from_bytes(self.sound[at : at + 8], "little") ^ 1 << rng.randrange(64)
            return word.to_bytes(8, "little")
        return rng.randbytes(rng.choice((1, 4, 8)))
