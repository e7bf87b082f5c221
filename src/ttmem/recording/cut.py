"""Cuts a part of a recording into a recording of its own. Positions and times do not change."""

from __future__ import annotations

import os

from ttmem.errors import BadInput, TtmemError
from ttmem.events import EVENT_SIZE
from ttmem.recording.format import (
    ChunkType,
    RecordsEncoder,
    encode_long,
    from_document,
)
from ttmem.recording.instants import Instant
from ttmem.recording.recording import Document, Recording
from ttmem.recording.writer import Sink

MOST_MARKS = 100_000  # in one document, which readers limit


def cut(recording: Recording, start: Instant, end: Instant, sink: Sink) -> int:
    """Writes what lies between two instants, from the start of the batch that contains `start`.

    If records are missing there, it begins with the next key frame. Returns the position of the first record.
    """
    if end.position < start.position or end.time_ns < start.time_ns:
        raise BadInput("the range ends before it begins")
    start = start._replace(position=recording.batch_start(start.position))
    start = min(recording.next_state(start), end, key=lambda instant: instant.position)
    first = written = start.position
    stream = int.from_bytes(os.urandom(8), "little")

    def write(document: Document) -> None:
        kind, payload, position, time = document
        for chunk in encode_long(kind, payload, stream, position=position, time=time):
            _append(sink, chunk)

    about = from_document({**recording.info().recorded, "cut": True})
    write(Document(ChunkType.FILE, about, first, start.time_ns))
    for document in recording.key_frame(start):
        write(document)
    kept = [
        [mark.position, mark.time_ns, mark.kind, mark.pid, mark.device, mark.text]
        for mark in recording.markers
        if first <= mark.position <= end.position
        and (mark.position < end.position or mark.time_ns <= end.time_ns)
    ]
    for at in range(0, max(1, len(kept)), MOST_MARKS):
        some = from_document(kept[at : at + MOST_MARKS])
        write(Document(ChunkType.MARKS, some, first, start.time_ns))
    documents = recording.documents(start, end)
    waiting = next(documents, None)
    encoder = RecordsEncoder(stream, recording.time_at(first))
    for position, data in recording.records(first, end.position):
        until = position + len(data) // EVENT_SIZE
        while waiting is not None and waiting.position < until:  # a document precedes its records
            write(waiting)
            waiting = next(documents, None)
        try:
            chunk = encoder.encode(data, len(data), position=position, lost=position - written)
        except ValueError:  # it begins within a batch, as no writer's key frame does: they are lost
            continue
        _append(sink, chunk)
        written = until
    for document in (*filter(None, [waiting]), *documents):
        write(document)
    lost = max(0, end.position - written)
    when = end.time_ns
    for chunk in encode_long(
        ChunkType.END, b"{}", stream, position=end.position, time=when, lost=lost
    ):
        _append(sink, chunk)
    return first


def _append(sink: Sink, chunk: bytes) -> None:
    try:
        sink.append(chunk)
    except OSError as problem:
        raise TtmemError(f"the recording cannot be written: {problem.strerror}") from None
