"""Descriptions of the probe's events that change no account."""

from __future__ import annotations

from typing import Any

import pytest

from ttmem.events import Notice, Op
from ttmem.snapshots import LoggedEvent
from ttmem.views.monitor.pages.event_text import event_id, event_text, is_sized

FAILED = """TT_FATAL @ /project/tt_metal/impl/allocator/bank_manager.cpp:462: address.has_value()
info:
Out of Memory: Not enough space to allocate 2147483648 B L1 buffer across 110 banks
backtrace:
"""


def event(op: str, **fields: Any) -> LoggedEvent:
    return LoggedEvent(1, None, None, op, **fields)


@pytest.mark.parametrize("sort", [*Op, *Notice])
def test_every_sort_of_event_has_words(sort: Op | Notice) -> None:
    assert not event_text(event(sort.name)).startswith("unknown event")


def test_a_failed_allocation_says_why() -> None:
    entry = event("ALLOCATION_FAILED", kind="L1", text=FAILED)

    assert event_text(entry) == (
        "allocation FAILED L1: Out of Memory: Not enough space to allocate 2147483648 B L1 buffer"
        " across 110 banks"
    )
    assert is_sized(entry)


def test_a_buffer_that_went_with_its_device_is_told_apart_from_one_that_was_freed() -> None:
    entry = event("FREE", kind="DRAM", flags=("KIND_KNOWN", "WITH_DEVICE"))

    assert event_text(entry) == "freed DRAM, with its device"


def test_a_phase_has_no_id() -> None:
    assert event_id(event("PHASE_ENTERED", id=5)) is None
