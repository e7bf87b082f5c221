"""Recordings with changed payloads and valid checksums, as an attacker might write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ttmem._native import transposed
from ttmem.events import EVENT_SIZE
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header, decode, encode

DOCUMENTS = (
    ChunkType.FILE,
    ChunkType.STRINGS,
    ChunkType.CONTEXT,
    ChunkType.MARKS,
    ChunkType.ACCOUNTS,
)
TEXTS = {"command", "user", "host", "kernel", "boot_id", "ttmem", "title", "board", "note"}
Change = Callable[[str], str]


def chunks_of(data: bytes) -> list[tuple[Header, bytes]]:
    found, at = [], 0
    while at < len(data):
        header = Header.unpack(data[at : at + HEADER_SIZE])
        stored = data[at + HEADER_SIZE : at + HEADER_SIZE + header.stored]
        found.append((header, decode(header, stored)))
        at += HEADER_SIZE + header.stored
    return found


def rewritten(original: Path, change: Callable[[ChunkType, bytes], bytes]) -> bytes:
    out = []
    for header, payload in chunks_of(original.read_bytes()):
        kind = ChunkType(header.type)
        payload = change(kind, payload)
        if kind is ChunkType.RECORDS:
            payload = transposed(payload, EVENT_SIZE)
        out.append(
            encode(
                kind,
                payload,
                header.stream,
                position=header.position,
                records=header.records,
                first=header.first,
                last=header.last,
            )
        )
    return b"".join(out)


def _changed(value: Any, text: Change, everything: bool) -> Any:
    if isinstance(value, dict):
        return {
            key: _changed(entry, text, everything or key in TEXTS) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_changed(entry, text, everything) for entry in value]
    return text(value) if everything and isinstance(value, str) else value


def with_texts(original: Path, text: Change) -> bytes:
    """Every name, command, user, host, call site and marker is `text` of what it was."""

    def change(kind: ChunkType, payload: bytes) -> bytes:
        if kind not in DOCUMENTS:
            return payload
        if kind is ChunkType.MARKS:
            marks = json.loads(payload)
            return json.dumps([[*mark[:5], text(str(mark[5]))] for mark in marks]).encode()
        everything = kind is ChunkType.STRINGS
        return json.dumps(_changed(json.loads(payload), text, everything)).encode()

    return rewritten(original, change)


HOSTILE: dict[str, Change] = {
    "escapes": lambda text: (
        text + "\x1b[2J\x1b]52;c;b3duZWQ=\x07\x9b31m\x9d0;owned\x9c\x08\x00\x7f"
    ),
    "hidden order": lambda text: "\u202e" + text + "\u2066\u200b\ufeff",
    "line ends": lambda text: text + "\rOWNED\x0b\x0c\x1c\x85\u2028\u2029",
    "markup": lambda text: f"\"'><script>owned()</script><img src=x onerror=owned()><!--{text}",
    "markdown": lambda text: f"|`{text}`|[x](javascript:owned())|<b>",
    "a formula": lambda text: '=HYPERLINK("http://owned","' + text,
    "separators": lambda text: f'{text};a,b\t"c"\\ 7 8.5',
    "half a surrogate": lambda text: text + "\udc80\ud800",
    "huge": lambda text: text + "x" * 1_000_000,
}
