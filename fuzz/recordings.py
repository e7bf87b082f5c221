"""The golden recording, taken apart and sealed again: an enemy can compute checksums, too."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ttmem._native import transposed
from ttmem.events import EVENT_SIZE
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header, decode, encode

GOLDEN = Path(__file__).parents[1] / "tests" / "data" / "recordings" / "version-1.ttmem"
Chunk = tuple[Header, bytes]


@cache
def golden() -> tuple[Chunk, ...]:
    """Headers and payloads; of RECORDS, the records."""
    data, found, at = GOLDEN.read_bytes(), [], 0
    while at < len(data):
        header = Header.unpack(data[at : at + HEADER_SIZE])
        end = at + HEADER_SIZE + header.stored
        found.append((header, decode(header, data[at + HEADER_SIZE : end])))
        at = end
    return tuple(found)


def sealed(header: Header, payload: bytes) -> bytes:
    """A chunk with the place and times of a header, and checksums that are right."""
    kind, records = ChunkType(header.type), 0
    if kind is ChunkType.RECORDS:
        records = len(payload) // EVENT_SIZE
        payload = transposed(payload[: records * EVENT_SIZE], EVENT_SIZE)
    return encode(
        kind,
        payload,
        header.stream,
        position=header.position,
        records=records,
        lost=header.lost,
        first=header.first,
        last=header.last,
    )


class InMemory:
    """A recording without a file; see `Source`."""

    name = "recording"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def close(self) -> None: ...
