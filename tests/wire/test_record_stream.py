"""Sizes are told apart by structure, once per connection, however the bytes arrive."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.events import EVENT_SIZE, Event, Op
from ttmem.wire.historical import (
    SIZES,
    Head,
    HistoricalQuery,
    Item,
    Message,
    Problem,
    RecordStream,
    encode,
)

PID = 4242


def report(number: int, kind: Op = Op.ALLOC) -> Head:
    return Head(kind, 0, 4096, 1, PID, 0x1000 + number)


def events(items: list[Item]) -> list[Event]:
    joined = b"".join(item for item in items if isinstance(item, bytes))
    return [Event.unpack(joined, at) for at in range(0, len(joined), EVENT_SIZE)]


def problems(items: list[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, Problem)]


def is_end(item: Item) -> bool:
    return isinstance(item, Problem) and item.ends


def test_a_plain_report_becomes_an_event() -> None:
    stream = RecordStream(PID)
    items = stream.feed(
        encode(144, report(1)) + encode(144, Head(Op.KERNEL_LOAD, 2, 917_504, 1, PID, 7))
    )

    alloc, load = events(items)
    assert alloc == Event(Op.ALLOC, 1, device=0, id=0x1001, size=4096, address=0x1001)
    assert (load.op, load.kind, load.device, load.size, load.number) == (
        Op.KERNEL_LOAD,
        1,
        2,
        917_504,
        0,
    )


@pytest.mark.parametrize("size", SIZES)
@given(cuts=st.lists(st.integers(1, 400), max_size=30))
@settings(max_examples=60, deadline=None)
def test_any_cut_of_the_stream_gives_the_same_events(size: int, cuts: list[int]) -> None:
    heads = [report(n, Op.FREE if n % 3 else Op.ALLOC) for n in range(12)]
    data = b"".join(encode(size, head) for head in heads)
    stream = RecordStream(PID)
    items: list[Item] = []
    for cut in cuts:
        items += stream.feed(data[:cut]) if data[:cut] else []
        data = data[cut:]
    items += stream.feed(data) if data else []
    items += stream.quiet()

    assert [event.id for event in events(items)] == [head.id for head in heads]
    assert problems(items) == []
    assert stream.record_size == size


@pytest.mark.parametrize("size", SIZES)
def test_a_lone_question_is_understood_after_a_moment_of_quiet(size: int) -> None:
    stream = RecordStream(PID)
    question = Head(Message.QUERY, 5, 0, 0, PID)

    assert stream.feed(encode(size, question)) == []
    assert stream.waiting
    assert stream.quiet() == [HistoricalQuery(question, size)]


@pytest.mark.parametrize("size", SIZES)
def test_a_lone_question_of_a_client_that_closes_at_once_is_understood(size: int) -> None:
    stream = RecordStream(PID)
    stream.feed(encode(size, Head(Message.DEVICE_INFO_QUERY, -1)))

    assert stream.end() == [HistoricalQuery(Head(Message.DEVICE_INFO_QUERY, -1), size)]


@pytest.mark.parametrize("longer", SIZES[1:])
def test_a_lone_record_in_two_late_packets_counts_once(longer: int) -> None:
    stream = RecordStream(PID)
    record = encode(longer, report(1))
    items = stream.feed(record[:72]) + stream.quiet()
    items += stream.feed(record[72:]) + stream.quiet()
    items += stream.feed(encode(longer, report(2)) + encode(longer, report(3)))

    assert [event.id for event in events(items)] == [0x1001, 0x1002, 0x1003]
    assert stream.record_size == longer


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in SIZES for b in SIZES if a != b])
def test_records_that_change_size_in_mid_stream_are_neither_lost_nor_misread(
    first: int, second: int
) -> None:
    stream = RecordStream(PID)
    data = b"".join(encode(first, report(n)) for n in range(4))
    data += b"".join(encode(second, report(n)) for n in range(4, 9))
    items = stream.feed(data)

    assert [event.id - 0x1000 for event in events(items)] == list(range(9))
    assert len(problems(items)) == 1
    assert stream.record_size == second


def test_an_unknown_type_costs_one_record_and_not_the_connection() -> None:
    stream = RecordStream(PID)
    items = stream.feed(
        b"".join(encode(128, Head(kind, 0, 1, 0, PID, kind)) for kind in (1, 13, 2, 200, 1))
    )

    assert [event.id for event in events(items)] == [1, 2, 1]
    assert [text.split(" is ")[0] for text in problems(items)] == [
        "message type 13",
        "message type 200",
    ]


def test_many_unknown_types_in_a_row_end_the_connection() -> None:
    stream = RecordStream(PID)
    items = stream.feed(encode(72, report(1)) + encode(72, Head(99, 0, 1, 0, PID)) * 20)

    assert [item for item in items if is_end(item)] == [
        Problem("more than 10 messages of unknown types in a row", ends=True)
    ]
    assert stream.feed(encode(72, report(2))) == []


def test_garbage_is_refused_at_its_first_bytes() -> None:
    assert is_end(RecordStream(PID).feed(b"GET / HTTP/1.1\r\n")[0])
    assert is_end(RecordStream(PID).feed(b"\x00" * 144)[0])
    assert is_end(RecordStream(PID).feed(b"\x01" * 144)[0])


def test_garbage_after_good_records_ends_the_stream_and_keeps_them() -> None:
    stream = RecordStream(PID)
    good = b"".join(encode(144, report(n)) for n in range(3))
    noise = random.Random(7).randbytes(400)
    items = stream.feed(good + noise)

    assert [event.id for event in events(items)] == [0x1000, 0x1001, 0x1002]
    assert is_end(items[-1])


def test_a_truncated_record_is_named_and_not_counted() -> None:
    stream = RecordStream(PID)
    items = stream.feed(
        encode(144, report(1)) + encode(144, report(2)) + encode(144, report(3))[:100]
    )
    items += stream.end()

    assert [event.id for event in events(items)] == [0x1001, 0x1002]
    assert problems(items) == ["the connection ended inside a record: 100 bytes dropped"]


def test_a_message_that_names_another_pid_counts_for_the_sender_and_is_said_once() -> None:
    stream = RecordStream(PID)
    others = b"".join(encode(144, report(n)._replace(pid=17)) for n in range(3))
    items = stream.feed(others)

    assert len(events(items)) == 3
    assert problems(items) == [
        f"messages name pid 17, the sender is pid {PID}; they count for the sender"
    ]


def test_a_client_that_leaves_its_padding_and_tail_uninitialised_is_read() -> None:
    def dirty(number: int) -> bytes:
        record = bytearray(encode(144, report(number)))
        record[1:4] = b"\xaa\xbb\xcc"
        record[17:20] = b"\xdd\xee\xff"
        record[60:64] = b"\x00\x00\x7f\x99"
        return bytes(record)

    stream = RecordStream(PID)
    items = stream.feed(b"".join(dirty(n) for n in range(5)))

    assert [event.id for event in events(items)] == [0x1000 + n for n in range(5)]
    assert problems(items) == []


def test_a_client_that_sends_an_answer_is_told_off() -> None:
    stream = RecordStream(PID)
    items = stream.feed(encode(72, Head(Message.RESPONSE, 0, 0, 0, PID)) + encode(72, report(1)))

    assert problems(items) == ["a client sent RESPONSE, which only servers send"]
    assert len(events(items)) == 1


def helper(kind: int = 8, *, pid: int = PID, size: int = 4096, id: int = 3) -> bytes:
    """A message of instrumented_helpers.hpp: its id stands where a record has kind and pid."""
    return struct.pack("<B3xiQQi4x", kind, 0, size, id, pid)


def test_a_message_of_the_instrumented_helpers_is_named_when_it_arrives() -> None:
    stream = RecordStream(PID)
    items = stream.feed(helper()) + stream.quiet()

    (text,) = problems(items)
    assert text.startswith("32-byte messages of instrumented_helpers.hpp are skipped")
    assert not stream.waiting
    assert stream.end() == []


@given(cuts=st.lists(st.integers(1, 90), max_size=30))
@settings(max_examples=60, deadline=None)
def test_messages_of_the_helpers_are_counted_and_skipped_however_they_arrive(
    cuts: list[int],
) -> None:
    kernel = (7 << 32) | 1
    data = helper(8) + helper(10, id=kernel, size=51_200 * 64) + helper(9) + helper(11, id=kernel)
    data *= 3
    stream = RecordStream(PID)
    items: list[Item] = []
    for cut in cuts:
        items += stream.feed(data[:cut]) if data[:cut] else []
        data = data[cut:]
    items += stream.feed(data) if data else []
    items += stream.quiet() + stream.end()

    assert events(items) == []
    assert not [item for item in items if is_end(item)]
    assert sum(item.records for item in items if isinstance(item, Problem)) == 12


def test_messages_of_the_helpers_in_a_container_name_a_pid_that_the_server_does_not_know() -> None:
    stream = RecordStream(PID)
    kernel = helper(10, pid=7, id=(7 << 32) | 1)

    assert problems(stream.feed(helper(8, pid=7)) + stream.quiet())
    assert problems(RecordStream(PID).feed(kernel + kernel))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [Op.CB_ALLOC, Op.KERNEL_LOAD])
@pytest.mark.parametrize("id", [PID, PID + 1])
def test_a_record_of_which_32_bytes_have_come_is_no_message_of_the_helpers(
    size: int, kind: Op, id: int
) -> None:
    record = encode(size, Head(kind, 0, 4096, 1, PID, id))
    stream = RecordStream(PID)
    items = stream.feed(record[:32]) + stream.quiet()
    items += stream.feed(record[32:]) + stream.quiet()

    assert [event.id for event in events(items)] == [id]
    assert problems(items) == []


def test_garbage_among_messages_of_the_helpers_ends_the_stream() -> None:
    items = RecordStream(PID).feed(helper() * 2 + b"\xff" * 32)

    assert is_end(items[-1])
