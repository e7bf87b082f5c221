"""Events that are applied in words do what they do without, and the words agree with the sums."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.oracle import facts
from tests.ledger.test_laws import CORE_SETS, DEVICES, PROCESSES, any_event
from tests.ledger.test_move import everything
from ttmem.events import DeviceDeclaration, Event, MemoryKind, Op
from ttmem.ledger import Books, ProcessRecord

MB = 1 << 20
TOTAL = re.compile(r"\[(CB_\w+|KERNEL_\w+)\] .*?Device (\d+): .*\(Total: (\d+\.\d{3}) MB\)")


def world() -> tuple[Books, list[ProcessRecord]]:
    books = Books()
    processes = [books.open_process(facts(41 + number)) for number in range(PROCESSES)]
    for process in processes:
        for number in range(DEVICES):
            books.declare(process, DeviceDeclaration(number, str(9000 + number)))
        for number, cores in CORE_SETS.items():
            books.define_cores(process, number, sum(1 << (y * 32 + x) for x, y in cores))
    return books, processes


@given(st.lists(st.tuples(st.integers(0, PROCESSES - 1), any_event), max_size=80))
@settings(max_examples=150, deadline=None)
def test_words_change_no_account_and_their_totals_are_those_of_the_accounts(
    steps: Sequence[tuple[int, Event]],
) -> None:
    silent, silent_processes = world()
    books, processes = world()
    for number, event in steps:
        data = event.pack()
        silent.account(silent_processes[number], data, 1)
        done, text = books.native.apply_in_words(
            processes[number].index, data, 0, len(data), 1, 41 + number, 7, True
        )

        assert done == 1
        for line in text.decode().splitlines():
            if found := TOTAL.search(line):
                rows = [row for row in books.event_rows() if row.device == int(found[2])]
                cb, kernels = sum(r.cb_demand for r in rows), sum(sum(r.footprint) for r in rows)
                total = cb if found[1].startswith("CB") else kernels
                assert found[3] == f"{total / MB:.3f}"
            else:
                assert f"[PID {41 + number}]" in line or "L1 Peak on device" in line

    assert everything(books) == everything(silent)
    assert books.native.rejected() == silent.native.rejected()


def test_the_totals_go_along_when_an_account_moves_to_another_device() -> None:
    books, (process, *_) = world()
    events = [
        Event(Op.CB_ALLOC, id=1, size=MB),
        Event(Op.KERNEL_LOAD, id=1, size=MB),
        Event(Op.ALLOC, MemoryKind.L1, id=1, size=MB),
    ]
    books.account(process, b"".join(event.pack() for event in events), 1)
    assert books.native.move_account(process.index, 0, 1, 1)
    books.native.bind(process.index, 0, 1)

    data = b"".join(event._replace(id=2).pack() for event in events)
    _, text = books.native.apply_in_words(process.index, data, 0, len(data), 1, 41, 7, False)

    assert text.decode().splitlines() == [
        "✓ [CB_ALLOC] Device 0: +1.000 MB (Total: 2.000 MB)",
        "[7ms] L1 Peak on device 0: 1 MB (1 buffers)",
        "✓ [KERNEL_LOAD] Application kernel on Device 0: +1.000 MB (Total: 2.000 MB)",
        "✓ [PID 41] Allocated 1048576 bytes of L1 on device 0 (buffer_id=0x2)",
        "[7ms] L1 Peak on device 0: 2 MB (2 buffers)",
    ]


@given(st.integers(1, 1 << 40) | st.integers(1, 1 << 14).map(lambda n: n << 16))
def test_megabytes_have_three_decimals_rounded_as_everywhere(size: int) -> None:
    books, (process, *_) = world()
    data = Event(Op.CB_ALLOC, id=1, size=size).pack()
    _, text = books.native.apply_in_words(process.index, data, 0, len(data), 1, 41, 7, False)

    told = f"{size / MB:.3f} MB"
    assert text.decode() == f"✓ [CB_ALLOC] Device 0: +{told} (Total: {told})\n"
