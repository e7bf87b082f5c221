"""Failed allocations as anomalies, with the runtime's figures or without."""

from __future__ import annotations

import pytest

from ttmem.events import DeviceDeclaration, Event, MemoryKind, Notice
from ttmem.events.probe_news import ProbeNews
from ttmem.ledger import Books
from ttmem.ledger.details import logged_event
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import Anomaly

FACTS = ProcessFacts(41, 1000, "alice", "python model.py")
CB_BASE = 111_744
CHIP = DeviceDeclaration(
    0,
    unique_id="77",
    l1_banks=110,
    l1_per_core=1_572_864,
    l1_bank_size=1_457_024,
    l1_small_bank_size=4_096,
    cb_base=CB_BASE,
)
CLASH = (
    "Statically allocated dataflow buffers in program 0 clash with L1 buffers on core range [0-0 - 10-9]. "
    "L1 buffer allocated at 339968 and static dataflow buffer region ends at 666752"
)
FAILED = Event(Notice.ALLOCATION_FAILED, MemoryKind.L1, time=5)


def told(message: str, event: Event = FAILED) -> Anomaly:
    books = Books()
    news = ProbeNews(FACTS, "region", (CHIP,), messages={5: message}, events=event.pack())
    books.probed.take([news], 1)
    (anomaly,) = books.snapshot(1).devices[0].anomalies
    return anomaly


def test_a_clash_is_told_with_what_each_core_needs_and_no_sum() -> None:
    anomaly = told(CLASH)

    assert "an allocation FAILED: 542.0 KiB of L1 on each core; " in anomaly.text
    assert "; its circular buffers overlap L1 buffers; pid 41" in anomaly.text
    assert anomaly.bytes is None


def test_a_failure_without_figures_is_told_without_any() -> None:
    anomaly = told("no")

    assert "an allocation FAILED: in L1; " in anomaly.text
    assert (anomaly.bytes, anomaly.time_ns) == (None, 5)


def test_a_buffer_is_told_with_what_was_asked_for() -> None:
    anomaly = told("no", FAILED._replace(size=4096))

    assert "an allocation FAILED: 4.0 KiB of L1; " in anomaly.text
    assert anomaly.bytes == 4096


def test_what_the_runtime_says_was_asked_for_is_told_wherever_it_is_told() -> None:
    words = (
        "Not enough space to allocate 2688 B L1_SMALL buffer across 56 banks, where each bank needs to store 48 B, "
        "but bank size is 4096 B"
    )
    anomaly = told(words, FAILED._replace(size=2240))

    assert "an allocation FAILED: 2.6 KiB of L1" in anomaly.text
    assert anomaly.bytes == 2688


@pytest.mark.parametrize(
    ("free", "largest", "why"),
    [
        (512, 512, "exhausted: 512 B missing in each bank"),
        (2048, 512, "fragmented: the largest free block of a bank is 512 B"),
    ],
)
def test_the_figures_of_the_runtime_tell_why(free: int, largest: int, why: str) -> None:
    anomaly = told(
        "Not enough space to allocate 112640 B L1 buffer across 110 banks, where each bank needs to store 1024 B, "
        f"but bank size is 4096 B (allocated: 9 B, free: {free} B, largest free block: {largest} B)"
    )

    assert f"; {why}; pid 41" in anomaly.text


def test_what_no_device_could_hold_is_too_large() -> None:
    assert "; too large: " in told("no", FAILED._replace(size=2 << 40)).text


def test_the_event_of_a_clash_has_no_size() -> None:
    books = Books()
    books.probed.take([ProbeNews(FACTS, "region", (CHIP,))], 1)
    (process,) = books.processes.values()

    sizes = [logged_event(process, FAILED._replace(size=size), 1).size for size in (0, 64)]

    assert sizes == [None, 64]
