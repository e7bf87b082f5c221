"""A recording of chosen devices: chunks on their way to a file, without what happened on other devices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ttmem._native import Ledger, transposed
from ttmem.events import EVENT_SIZE, Notice
from ttmem.events.record import BLANK, Control
from ttmem.recording.format import (
    HEADER_SIZE,
    ChunkType,
    Header,
    decode,
    encode,
    encode_long,
    from_document,
    runs,
    to_document,
)
from ttmem.recording.reader import is_chosen
from ttmem.recording.writer import Sink

_ANYWHERE = frozenset(one for one in Notice if not one.of_device)
_WORDS = EVENT_SIZE // 4
_DEVICE = 1  # column of an event, in words of four bytes
_KEPT = slice(8, 16)  # of a blank event: its time


class SelectedDevices:
    """A sink before another. Devices are chosen by logical or unique id, whenever they appear.

    Events on other devices become blank records, so that positions and times stay what they are for everybody else
    who records the same.
    """

    def __init__(self, sink: Sink, wanted: Collection[str]) -> None:
        self._sink = sink
        self._wanted = frozenset(wanted)
        self._parts: list[bytes] = []  # start of a payload that continues in the next chunk
        self._devices: dict[str, dict[str, Any]] = {}  # by index in the ledger
        self._bound: dict[int, dict[int, str]] = {}  # logical to unique ids, by serial number

    def append(self, chunk: bytes) -> None:
        """See `Sink`."""
        header = Header.unpack(chunk[:HEADER_SIZE])
        payload = decode(header, chunk[HEADER_SIZE:])
        if header.type == ChunkType.RECORDS:
            self._sink.append(self._records(header, payload))
            return
        self._parts.append(payload)
        if header.continued:
            return
        payload, self._parts = b"".join(self._parts), []
        kind = ChunkType(header.type)
        payload = self._state(payload) if kind is ChunkType.STATE else self._document(kind, payload)
        about = {"position": header.position, "time": header.first, "lost": header.lost}
        for part in encode_long(kind, payload, header.stream, **about):
            self._sink.append(part)

    def close(self) -> None:
        self._sink.close()

    @property
    def unseen(self) -> list[str]:
        """What was selected, and is the id of no device so far."""
        known = [(one["unique_id"], one["logical_id"]) for one in self._devices.values() if one]
        return sorted(
            wanted
            for wanted in self._wanted
            if not any(is_chosen(*one, (wanted,)) for one in known)
        )

    def _document(self, kind: ChunkType, payload: bytes) -> bytes:
        document = to_document(payload)
        if kind is ChunkType.ACCOUNTS:
            for serial, process in document.items():
                named = process["devices"].items()
                self._bound[int(serial)] = {int(logical): unique for logical, unique in named}
        elif kind is ChunkType.CONTEXT:
            if document.get("full"):
                self._devices = {}
            self._devices.update(document.get("devices", {}))
        elif kind is ChunkType.HISTORY:
            return from_document({one: rows for one, rows in document.items() if self._has(one)})
        elif kind is ChunkType.MARKS:
            return from_document([one for one in document if one[4] is None or self._has(one[4])])
        return payload

    def _has(self, unique_id: str | None) -> bool:
        if unique_id is None:
            return False
        named = (one for one in self._devices.values() if one and one["unique_id"] == unique_id)
        logical = next((one["logical_id"] for one in named), None)
        return is_chosen(unique_id, logical, self._wanted)

    def _state(self, payload: bytes) -> bytes:
        ledger = Ledger()
        ledger.restore(payload)
        for index, device in self._devices.items():
            if device is None or not self._has(device["unique_id"]):
                ledger.forget_device(int(index))
        return ledger.save()

    def _records(self, header: Header, records: bytes) -> bytes:
        data = bytearray(records)
        words = memoryview(records).cast("I")
        for run in runs(records):
            if run.control.op == Control.BATCH:
                bound = self._bound.get(run.control.extra, {})
                named = words[run.first * _WORDS + _DEVICE : run.end * _WORDS : _WORDS].tolist()
                others = {one for one in {*named} if not self._has(bound.get(one))}
                if others:
                    self._blank(data, run.first, named, others)
        return encode(
            ChunkType.RECORDS,
            transposed(bytes(data), EVENT_SIZE),
            header.stream,
            position=header.position,
            records=header.records,
            lost=header.lost,
            first=header.first,
            last=header.last,
        )

    def _blank(self, data: bytearray, first: int, named: list[int], others: set[int]) -> None:
        for number, device in enumerate(named, first):
            at = number * EVENT_SIZE
            if device in others and data[at] not in _ANYWHERE:
                upper = data[at + 3]  # one slot of the probe's ring stays one
                time = data[at + _KEPT.start : at + _KEPT.stop]
                data[at : at + EVENT_SIZE] = (
                    bytes((BLANK, 0, 0, upper, 0, 0, 0, 0)) + time + bytes(48)
                )
