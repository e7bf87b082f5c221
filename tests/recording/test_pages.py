"""Pages of journal records: what they hold, when they are full, and what they refuse."""

from __future__ import annotations

import sys

import pytest

from ttmem._native import Page, planes
from ttmem.events import EVENT_SIZE, Control, Event, MemoryKind, Op

ARRIVED = 10**18
MOST = 4095  # events of one batch


def _events(count: int) -> bytes:
    return b"".join(
        Event(Op.ALLOC, MemoryKind.DRAM, id=number, size=64, time=ARRIVED - 1).pack()
        for number in range(count)
    )


def _batch(events: bytes) -> bytes:
    """The record that stands in front of them."""
    count = len(events) // EVENT_SIZE
    control = Event(Control.BATCH, device=7, time=ARRIVED, id=100, extra=3, size=count)
    return control.pack() + events


def _planes(records: bytes | Page, size: int) -> tuple[int, bytes]:
    out = bytearray(size)
    return planes(records, 0, out), bytes(out)


@pytest.mark.parametrize("count", [0, 1, 63, 64, MOST])
def test_a_page_has_the_records_of_its_batches_whether_it_copied_or_refers_to_them(
    count: int,
) -> None:
    few, many = _events(2), b"before" + _events(count) + b"behind"
    page = Page()

    page.batch(7, ARRIVED, 100, 3, few, 0, len(few))
    page.batch(7, ARRIVED, 100, 3, many, 6, len(many) - 6)
    page.control(_batch(b""))
    page.seal()

    records = _batch(few) + _batch(many[6:-6]) + _batch(b"")
    assert page.size() == len(records)
    assert _planes(page, len(records)) == _planes(records, len(records))


def test_bytes_that_several_batches_share_count_once() -> None:
    page, data = Page(), _events(200)
    half = len(data) // 2

    page.batch(7, ARRIVED, 100, 3, data, 0, half)
    page.batch(7, ARRIVED, 200, 3, data, half, len(data))

    assert page.held() == 2 * EVENT_SIZE + len(data)


def test_a_full_page_takes_nothing_more_and_neither_does_a_sealed_one() -> None:
    page, data = Page(), _events(MOST)
    while page.batch(7, ARRIVED, 100, 3, bytes(bytearray(data)), 0, len(data)):
        pass
    size, other = page.size(), Page()
    other.seal()

    assert page.held() >= 4 << 20
    assert [one.control(_batch(b"")) for one in (page, other)] == [False, False]
    assert (page.size(), other.size()) == (size, 0)


def test_bytes_that_are_added_again_and_again_fill_a_page_too() -> None:
    page, data = Page(), _events(MOST)
    while page.batch(7, ARRIVED, 100, 3, data, 0, len(data)):
        assert page.size() < 5 << 20

    assert page.held() < 1 << 20


def test_a_page_keeps_its_bytes_and_lets_go_of_them() -> None:
    page, data = Page(), _events(100)
    before = sys.getrefcount(data)
    page.batch(7, ARRIVED, 100, 3, data, 0, len(data))
    kept = sys.getrefcount(data)

    del page

    assert (kept, sys.getrefcount(data)) == (before + 1, before)


@pytest.mark.parametrize(("begin", "end"), [(-64, 64), (64, 0), (0, 1), (0, 1 << 40), (0, -64)])
def test_a_part_that_is_no_whole_records_of_the_bytes_is_refused(begin: int, end: int) -> None:
    page = Page()

    with pytest.raises(ValueError, match="no whole records"):
        page.batch(7, ARRIVED, 100, 3, _events(2), begin, end)

    assert page.size() == 0


def test_more_than_a_page_has_room_for_is_refused() -> None:
    page = Page()

    with pytest.raises(ValueError, match="too many for a page"):
        page.batch(7, ARRIVED, 100, 3, _events(MOST + 1), 0, (MOST + 1) * EVENT_SIZE)
    with pytest.raises(ValueError, match="too many for a page"):
        page.control(_events(MOST + 2))

    assert page.size() == 0


def test_only_a_sealed_page_can_be_read() -> None:
    with pytest.raises(TypeError, match="sealed"):
        _planes(Page(), 64)
