"""What the guided fuzzers start from, replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz import decoders

from ttmem._native import Ledger, decode_records
from ttmem.events import EVENT_SIZE

CORPUS = Path(decoders.__file__).parent / "corpus"


def inputs(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize("name", decoders.ALL)
def test_no_decoder_raises_what_it_does_not_promise(name: str) -> None:
    for data in inputs(name):
        decoders.ALL[name](data)


def test_the_native_decoder_takes_whole_records_and_no_more() -> None:
    for data in inputs("records"):
        size = 40 + 8 * (data[0] % 14)
        events, used, _ = decode_records(data, 2, size, data[1])
        assert used == len(events) // EVENT_SIZE * size <= len(data) - 2


def test_whatever_events_came_a_released_process_holds_nothing() -> None:
    for data in inputs("ledger"):
        ledger = Ledger(max_live=400, max_steps=300)
        processes = [ledger.open_process() for _ in range(2)]
        for device in range(3):
            ledger.add_device()
            for process in processes:
                ledger.bind(process, device, device)
        for at in range(2, len(data) - EVENT_SIZE, 1 + EVENT_SIZE):
            ledger.apply(data[at] & 1, data, at + 1, EVENT_SIZE, 1)
        for process in processes:
            ledger.release_process(process)
        assert ledger.live() == 0
