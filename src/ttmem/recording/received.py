"""Passes the chunks of a server's recorder to a file or memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ttmem.recording.context import strings_without_secrets, without_secrets
from ttmem.recording.format import (
    HEADER_SIZE,
    ChunkType,
    Header,
    decode,
    encode_long,
    from_document,
    to_document,
)
from ttmem.recording.writer import RETRY_MAX_S, RETRY_S, Sink, Written

WITH_SECRETS = (ChunkType.STRINGS, ChunkType.CONTEXT, ChunkType.ACCOUNTS, ChunkType.MARKS)


class Received:
    """Appends chunks to a sink, and notes in each RECORDS and END chunk how many records were lost before it.

    After a loss, nothing is useful before the next FILE chunk; `wants_file` says when to ask for one.
    """

    def __init__(
        self, sink: Sink, about: Mapping[str, Any] | None = None, *, confidential: bool = False
    ) -> None:
        """`about` replaces the server's own description."""
        self._sink, self._about, self._confidential = sink, about, confidential
        self._reads = False
        self._parts: list[bytes] = []  # start of a document that continues in the next chunk
        self._last: Header | None = None  # of the last chunk in the sink
        # Position after the last record in the sink; before the first record, that of the key frame.
        self._end: int | None = None
        self._seen = 0  # position after the last record that was announced
        self._records = self._bytes = self._lost = 0
        self._problem: str | None = None
        self._reason: str | None = None
        self._retry_at, self._retry_after = 0.0, RETRY_S

    def take(self, chunk: bytes) -> None:
        """BadChunk if it is not a chunk."""
        header = Header.unpack(chunk[:HEADER_SIZE])
        self._seen = max(self._seen, header.end)
        if header.type == ChunkType.FILE and time.monotonic() >= self._retry_at:
            self._reads = True
        if self._reads or (header.type == ChunkType.END and self._end is not None):
            try:
                self._append(header, chunk)
                self._last = header
            except OSError as problem:
                self._failed(problem.strerror or str(problem))

    def telemetry(self, document: Mapping[str, Any], now: int) -> None:
        """Adds a sample of the sensors, which servers do not read. Nothing may come between the parts of a document."""
        last = self._last
        if not self._reads or last is None or last.continued or last.type == ChunkType.END:
            return
        if self._confidential:
            document = without_secrets(document)
        added = last._replace(type=ChunkType.TELEMETRY, position=last.end, first=now)
        try:
            self._put_document(added, document)
        except OSError as problem:
            self._failed(problem.strerror or str(problem))

    def _append(self, header: Header, chunk: bytes) -> None:
        if header.type in (ChunkType.RECORDS, ChunkType.END):
            lost = 0 if self._end is None else max(0, header.position - self._end)
            self._put(header._replace(lost=min(lost, 0xFFFFFFFF)).pack() + chunk[HEADER_SIZE:])
            self._records, self._lost = self._records + header.records, self._lost + lost
            self._end = header.end
        elif header.type == ChunkType.FILE and self._about is not None:
            self._put_document(header, dict(self._about))
        elif self._confidential and header.type in WITH_SECRETS:
            self._parts.append(decode(header, chunk[HEADER_SIZE:]))
            if not header.continued:
                parts, self._parts = self._parts, []
                is_strings = header.type == ChunkType.STRINGS
                reduced = strings_without_secrets if is_strings else without_secrets
                self._put_document(header, reduced(to_document(b"".join(parts))))
        else:
            self._put(chunk)
            if header.type == ChunkType.STATE and not header.continued and self._end is None:
                self._end = header.position

    def _put_document(self, header: Header, document: object) -> None:
        """Replaces the document that came with this header."""
        kind, payload = ChunkType(header.type), from_document(document)
        for chunk in encode_long(
            kind, payload, header.stream, position=header.position, time=header.first
        ):
            self._put(chunk)

    def _put(self, chunk: bytes) -> None:
        self._sink.append(chunk)
        self._bytes += len(chunk)
        self._problem, self._retry_after = None, RETRY_S

    def _failed(self, problem: str) -> None:
        self._problem = self._reason = problem
        self._reads, self._parts = False, []
        self._retry_at = time.monotonic() + self._retry_after
        self._retry_after = min(2 * self._retry_after, RETRY_MAX_S)

    @property
    def wants_file(self) -> bool:
        return not self._reads and 0 < self._retry_at <= time.monotonic()

    def written(self) -> Written:
        pending = 0 if self._end is None else self._seen - self._end
        return Written(
            self._records, self._bytes, self._lost + pending, self._problem, self._reason, 0, 0
        )

    def close(self) -> Written:
        self._sink.close()
        return self.written()
