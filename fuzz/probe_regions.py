"""Changes to the region of a watched process, as a broken disk, a bug or an enemy would make them."""

from __future__ import annotations

import os
import random
from pathlib import Path

from fuzz.streams import EXTREMES

HEADER_IN_USE = 1024


def _used_words(data: bytes) -> list[int]:
    """Where something is written: the rest of a region is zeroes, and hardly worth a change."""
    words = range(0, len(data), 8)
    return [at for at in words if data[at : at + 8] != bytes(8)]


class ChangedFile:
    """A file of which a few words differ each time, and are put right again."""

    def __init__(self, path: Path, sound: bytes) -> None:
        self.path, self.sound = path, sound
        path.write_bytes(sound)
        self._file = path.open("r+b", buffering=0)
        self._changed: list[tuple[int, int]] = []

    def write(self, at: int, data: bytes) -> None:
        """Inside the file."""
        self._changed.append((at, len(data)))
        os.pwrite(self._file.fileno(), data, at)

    def read(self, at: int, size: int) -> bytes:
        """As it is now."""
        return os.pread(self._file.fileno(), size, at)

    def cut(self, size: int) -> None:
        """The rest is gone."""
        self._changed.append((0, len(self.sound)))
        self._file.truncate(size)

    def restore(self) -> None:
        """As it was."""
        for at, size in self._changed:
            os.pwrite(self._file.fileno(), self.sound[at : at + size], at)
        self._changed.clear()

    def close(self) -> None:
        """The file stays."""
        self._file.close()


class Bench(ChangedFile):
    """A region of 3 MB, changed at random."""

    def __init__(self, path: Path, sound: bytes) -> None:
        super().__init__(path, sound)
        self._used = _used_words(sound)

    def change(self, rng: random.Random) -> None:
        """Some words replaced or moved, mostly where it hurts; now and then the file cut."""
        for _ in range(rng.randrange(1, 9)):
            at = self._place(rng)
            self.write(at, self._word(rng, at))
        if rng.random() < 0.02:
            self.cut(rng.randrange(len(self.sound)))

    def _place(self, rng: random.Random) -> int:
        at = rng.choice(self._used) if rng.random() < 0.6 else 4 * rng.randrange(HEADER_IN_USE // 4)
        if rng.random() < 0.1:
            at = rng.randrange(len(self.sound) - 8)
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
