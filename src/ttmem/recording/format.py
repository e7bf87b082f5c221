"""The chunks of a recording (docs/recording-format.md describes every byte).

A recording is a sequence of chunks and nothing else: it has no footer and no table of contents, so that a file whose
writer was killed is complete up to its last whole chunk. Each chunk has a header of 64 bytes, little-endian:

====== ==== ======== =============================================================================
offset size field    meaning
====== ==== ======== =============================================================================
0      4s   magic    F7 54 54 4D ("TTM")
4      u8   type     `ChunkType`; readers skip types they do not know
5      u8   version  of the payload; readers skip a chunk, and refuse a FILE chunk, of a later version
6      u16  flags    bit 0: the payload is a zstd frame; bit 1: it continues in the next chunk
8      u32  stored   bytes of payload in the file
12     u32  raw      bytes of payload after decompression, at most 16 MiB
16     u64  position number of journal records before this chunk, since the journal began
24     u32  records  journal records in this chunk; 0 except in RECORDS
28     u32  lost     journal records that were lost immediately before this chunk
32     u64  first    time (ns since 1970) reached before the first record
40     u64  last     time reached with the last record; never less than `first`
48     u64  stream   a random number, the same in all chunks of one recording
56     u32  payload  CRC-32 of the payload as stored
60     u32  header   CRC-32 of the 60 bytes above
====== ==== ======== =============================================================================

`stream` keeps a reader that searches for the next chunk after a damaged one from taking bytes inside a payload, which
may be chosen by a watched program, for a chunk.

In journal records, BATCH, OPEN_PROCESS and RELEASE_PROCESS have the serial number of their account in `extra`. Ledger
indices are reused when a process has ended; serial numbers are not. A chunk starts with a control record.

The payload of RECORDS is 64 byte planes: the first bytes of all records, then all second bytes, and so on, which
compresses to less than half of what the records themselves do. Other payloads are JSON, except the state of the
ledger, whose format belongs to `Ledger.save`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from ttmem._native import Page, planes, reached, transposed
from ttmem.errors import TtmemError
from ttmem.events import EVENT_SIZE, Event
from ttmem.events.record import Control

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

VERSION = 1
MAGIC = b"\xf7TTM"
MAX_RAW = 16 << 20
# Fewer compress worse (4,096: +11 %), and make the loop of a server wait for the interpreter more often, which the
# writer's thread needs between the steps of a chunk. More make seeking slower.
CHUNK_RECORDS = 65_536
LEVEL = 1  # of zstd: 3 saves 2.5 % of the bytes for 70 % more time
COMPRESSED, CONTINUED = 1, 2
LONGEST_TEXT = 16_384  # characters; the longest text is a message of the runtime
_HALF_PAIR = re.compile(rb"\\u[dD]|\xed")  # may be half of a surrogate pair, or part of a whole one
_U32 = 0xFFFFFFFF
MASK_RECORDS = 2  # after a DEFINE_CORES
_TIME = 1  # column of a record, in words of eight bytes
_WORDS = EVENT_SIZE // 8

_FIELDS = Struct("<4sBBHIIQIIQQQI")
_CRC = Struct("<I")
HEADER_SIZE = _FIELDS.size + _CRC.size


class ChunkType(IntEnum):
    """The contents of a chunk."""

    FILE = 1  # JSON: who recorded, where and when; the first chunk of a file
    RECORDS = 2  # journal records, as byte planes
    STRINGS = 3  # JSON: {serial of an account: {number: text}}
    CONTEXT = 4  # JSON: the rest of what a snapshot needs, as far as it has changed
    STATE = 5  # the state of the ledger at this position: a key frame
    MARKS = 6  # JSON: markers
    HISTORY = 7  # JSON: samples of each device
    END = 8  # JSON: the writer closed the file
    ACCOUNTS = 9  # JSON: {serial of an account: its process}
    TELEMETRY = 10  # JSON: a sample of the sensors of all cards


class BadChunk(TtmemError):
    """A chunk is torn, was modified, or has a later version."""


class Header(NamedTuple):
    """The fields of the table above, in order, without the magic and its own checksum."""

    type: int
    version: int
    flags: int
    stored: int
    raw: int
    position: int
    records: int
    lost: int
    first: int
    last: int
    stream: int
    payload_crc: int

    @property
    def continued(self) -> bool:
        return bool(self.flags & CONTINUED)

    @property
    def end(self) -> int:
        """The position after its last record."""
        return self.position + self.records

    def pack(self) -> bytes:
        fields = _FIELDS.pack(MAGIC, *self)
        return fields + _CRC.pack(crc32(fields))

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Header:
        """BadChunk if it cannot have been written like this."""
        if len(data) < HEADER_SIZE or data[:4] != MAGIC:
            raise BadChunk("no chunk begins here")
        fields = _FIELDS.unpack_from(data)
        if _CRC.unpack_from(data, _FIELDS.size)[0] != crc32(data[: _FIELDS.size]):
            raise BadChunk("its header was modified")
        header = cls._make(fields[1:])
        records = header.type == ChunkType.RECORDS
        if (
            header.raw > MAX_RAW
            or header.stored > MAX_RAW + 4096
            or header.last < header.first
            or header.end >= 1 << 63
            or (records and header.raw != header.records * EVENT_SIZE)
            or (records and header.continued)
            or (not records and header.records)
        ):
            raise BadChunk("its header contradicts itself")
        return header


def encode(
    kind: ChunkType,
    payload: bytes | memoryview,
    stream: int,
    *,
    position: int = 0,
    records: int = 0,
    lost: int = 0,
    first: int = 0,
    last: int = 0,
    flags: int = 0,
) -> bytes:
    """A chunk as it is in a file."""
    stored = zstd.compress(payload, LEVEL)
    flags |= COMPRESSED
    if len(stored) >= len(payload):
        stored, flags = bytes(payload), flags & ~COMPRESSED
    header = Header(
        kind,
        VERSION,
        flags,
        len(stored),
        len(payload),
        position,
        records,
        min(lost, _U32),
        first,
        max(first, last),
        stream,
        crc32(stored),
    )
    return header.pack() + stored


class RecordsEncoder:
    """Makes RECORDS chunks, in the same memory: allocating it anew takes as long as making the planes."""

    def __init__(self, stream: int, reached_ns: int) -> None:
        self.reached_ns = reached_ns  # time reached with the last record
        self._stream = stream
        self._planes = bytearray()

    def encode(self, records: bytes | Page, size: int, *, position: int, lost: int = 0) -> bytes:
        """One chunk of `size` bytes, at most MAX_RAW. ValueError unless it begins with a control record."""
        if size > len(self._planes):
            self._planes = bytearray(size)
        first, self.reached_ns = self.reached_ns, planes(records, self.reached_ns, self._planes)
        return encode(
            ChunkType.RECORDS,
            memoryview(self._planes)[:size],
            self._stream,
            position=position,
            records=size // EVENT_SIZE,
            lost=lost,
            first=first,
            last=self.reached_ns,
        )


def encode_long(
    kind: ChunkType, payload: bytes, stream: int, *, position: int, time: int, lost: int = 0
) -> Iterator[bytes]:
    """A payload of any length, as one chunk or several."""
    ends = range(MAX_RAW, len(payload) + MAX_RAW, MAX_RAW) or (0,)
    for end in ends:
        flags = CONTINUED if end < len(payload) else 0
        part = payload[max(0, end - MAX_RAW) : end]
        yield encode(
            kind, part, stream, position=position, lost=lost, first=time, last=time, flags=flags
        )
        lost = 0


def decode(header: Header, stored: bytes) -> bytes:
    """The payload; for RECORDS, the records. BadChunk if it is not what was written."""
    if len(stored) != header.stored:
        raise BadChunk("it is cut off")
    if crc32(stored) != header.payload_crc:
        raise BadChunk("its payload was modified")
    if header.version > VERSION:
        raise BadChunk(f"it has format version {header.version}; this ttmem reads {VERSION}")
    payload = stored
    if header.flags & COMPRESSED:
        try:
            # Never more than one byte beyond the announced size, however much the frame would expand to.
            payload = zstd.ZstdDecompressor().decompress(stored, header.raw + 1)
        except zstd.ZstdError as problem:
            raise BadChunk(f"its payload cannot be decompressed ({problem})") from None
    if len(payload) != header.raw:
        raise BadChunk(f"its payload does not have the {header.raw:,} bytes of its header")
    if header.type != ChunkType.RECORDS:
        return payload
    records = transposed(payload, max(1, len(payload) // EVENT_SIZE))
    try:
        reached(records, 0)
    except ValueError as problem:
        raise BadChunk(f"its records are no journal ({problem})") from None
    return records


def to_document(payload: bytes) -> Any:
    """JSON that somebody else may have written; BadChunk if it is invalid.

    Its texts can be encoded, and are limited in length.
    """
    try:
        found = json.loads(payload)
        if _HALF_PAIR.search(payload):  # it could not be printed
            whole = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
            found = json.loads(whole)
        return _cut(found) if len(payload) > LONGEST_TEXT else found
    except (ValueError, RecursionError) as problem:
        raise BadChunk(f"its document cannot be read ({problem})") from None


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key[:LONGEST_TEXT]: _cut(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_cut(entry) for entry in value]
    return value[:LONGEST_TEXT] if isinstance(value, str) else value


def from_document(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def numbered(document: Any) -> Iterator[tuple[int, Any]]:
    """The entries of a document whose keys are numbers."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key.isdecimal() and len(key) < 20:
                yield int(key), value


def section(document: Any, name: str) -> dict[str, Any]:
    """A part of the document of a context; nothing if it has another shape."""
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


# -- journal records -------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """A control record and the records that belong to it: events of a BATCH, the mask of a DEFINE_CORES."""

    control: Event
    first: int  # offsets in the chunk of the records after it
    end: int


def runs(records: bytes) -> Iterator[Run]:
    """The runs of one chunk, which may end anywhere. ValueError if it does not start with a control record."""
    at, count = 0, len(records) // EVENT_SIZE
    while at < count:
        control = Event.unpack(records, at * EVENT_SIZE)
        if control.op < Control.BATCH:
            raise ValueError("an event that belongs to no batch")
        behind = 0
        if control.op == Control.BATCH:
            behind = control.size
        elif control.op == Control.DEFINE_CORES:
            behind = MASK_RECORDS
        end = min(count, at + 1 + behind)
        yield Run(control, at + 1, end)
        at = end


def times(records: bytes, run: Run) -> list[int]:
    """When the events of a batch happened; the time of arrival replaces a time that is unknown or in the future."""
    arrived = run.control.time
    words = memoryview(records).cast("Q")
    found = words[run.first * _WORDS + _TIME : run.end * _WORDS : _WORDS].tolist()
    return [time if 0 < time <= arrived else arrived for time in found]


def records_until(records: bytes, before: int, time: int) -> int:
    """How many records of a chunk come before the first event later than `time`."""
    for run in runs(records):
        if run.control.op == Control.BATCH:
            for number, happened in enumerate(times(records, run)):
                if max(before, happened) > time:
                    return run.first + number if number else run.first - 1
    return len(records) // EVENT_SIZE
