"""A part of a recording as a recording of its own. Positions and times stay what they were."""

from __future__ import annotations

import os
from collections.abc import Callable

from ttmem.errors import BadInput, TtmemError
from ttmem.events import EVENT_SIZE
from ttmem.recording.format import (
    ChunkType,
    encode_long,
    encode_records,
    from_document,
)
from ttmem.recording.recording import Document, Instant, Recording
from ttmem.recording.writer import Sink


def cut(
    recording: Recording,
    start: Instant,
    end: Instant,
    sink: Sink,
    progress: Callable[[int], None] = lambda position: None,
) -> None:
    """Writes what lies between two instants; it begins with the whole batch in which `start` lies."""
    if end.position < start.position or end.time_ns < start.time_ns:
        raise BadInput("the range ends before it begins")
    first = recording.batch_start(start.position)
    start = start._replace(position=first)
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
    write(Document(ChunkType.MARKS, from_document(kept), first, start.time_ns))
    documents = recording.documents(start, end)
    waiting = next(documents, None)
    latest = recording.time_at(first)
    for position, data in recording.records(first, end.position):
        until = position + len(data) // EVENT_SIZE
        while waiting is not None and waiting.position < until:  # a document precedes its records
            write(waiting)
            waiting = next(documents, None)
        chunk, latest = encode_records(
            [(data, 0, len(data))], stream, position=position, first=latest
        )
        _append(sink, chunk)
        progress(until)
    for document in (*filter(None, [waiting]), *documents):
        write(document)
    write(Document(ChunkType.END, b"{}", end.position, end.time_ns))


def _append(sink: Sink, chunk: bytes) -> None:
    try:
        sink.append(chunk)
    except OSError as problem:
        raise TtmemError(f"the recording could not be written: {problem.strerror}") from None
