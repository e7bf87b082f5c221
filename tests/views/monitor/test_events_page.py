from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.views.builders import NOW, device, snapshot
from tests.views.monitor.details import DETAIL_CASES, SECOND, any_details, sizes
from tests.views.monitor.monitors import SIZES, compare, draw, look_at
from ttmem.snapshots import Anomaly, LoggedEvent, Losses, Snapshot
from ttmem.views.monitor.pages.events import MOST, SHARE, AnomalyMemory, EventsPage
from ttmem.views.monitor.state import MonitorState


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("case", DETAIL_CASES)
def test_events_look_as_they_did(case: str, width: int, height: int) -> None:
    picture = draw(EventsPage(), look_at(DETAIL_CASES[case](), width, height))
    compare(f"events-{case}-{width}x{height}", picture)


def picture_at(seconds: int, *anomalies: Anomaly) -> Snapshot:
    seen = snapshot([device(0, anomalies=anomalies)], events=())
    return replace(seen, time_ns=NOW + seconds * SECOND)


def stream(picture: list[str]) -> list[str]:
    """What stands above the chosen event's own lines."""
    kept = picture[: -len(picture) // SHARE]
    return [line for line in kept if line]


def rows(page: EventsPage, of: Snapshot) -> list[str]:
    drawn = stream(draw(page, look_at(of, 200)))
    return [line for line in drawn if "CLASH" in line and " ! " not in line]


OLD, NEW = Anomaly("old", "CLASH of old", 7), Anomaly("new", "CLASH of new", 8)


def test_a_new_anomaly_stands_in_the_stream_with_its_time() -> None:
    page = EventsPage()
    before = rows(page, picture_at(0, OLD))
    after = rows(page, picture_at(2, OLD, NEW))
    again = rows(page, picture_at(4, OLD, NEW))
    assert [line.split()[0] for line in before] == [">earlier"]
    assert [line.split()[0] for line in after] == [">14:03:13.000", "earlier"]
    assert again == after


def test_a_failure_stands_where_it_happened_and_not_after_its_device_was_closed() -> None:
    page = EventsPage()
    page.watch(picture_at(0))
    closed = LoggedEvent(NOW + 2 * SECOND, 7, None, "DEVICE_CLOSED")
    failed = Anomaly("allocation_failed", "CLASH of L1", 7, time_ns=NOW + SECOND)
    picture = replace(picture_at(9, failed), events=(closed,))
    lines = stream(draw(page, look_at(picture, 200)))
    found = [line for line in lines if line[1:3] == "14" and ("CLASH" in line or "closed" in line)]
    assert [line.split()[0].lstrip(">") for line in found] == ["14:03:13.000", "14:03:12.000"]
    assert "device closed" in found[0]


def test_an_anomaly_that_grows_is_listed_once_at_its_last_time() -> None:
    page = EventsPage()
    page.watch(picture_at(0))
    page.watch(picture_at(1, Anomaly("free", "CLASH once", 7)))
    found = rows(page, picture_at(5, Anomaly("free", "CLASH 9 times", 7)))
    assert [line.split()[0] for line in found] == [">14:03:16.000"]
    assert "CLASH 9 times" in found[0]


def test_an_anomaly_that_is_over_stays_in_the_stream() -> None:
    page = EventsPage()
    page.watch(picture_at(0))
    page.watch(picture_at(1, NEW))
    assert len(rows(page, picture_at(9))) == 1


def test_the_memory_of_anomalies_is_bounded() -> None:
    memory = AnomalyMemory()
    memory.look(picture_at(0, *(Anomaly("x", "text", pid) for pid in range(MOST + 9))))
    assert [seen.anomaly.pid for seen in memory.seen()] == list(range(9, MOST + 9))


def test_losses_gaps_and_rejections_are_counted() -> None:
    lost = replace(picture_at(0), losses=Losses(1_204, 2, 3))
    text = draw(EventsPage(), look_at(lost))
    assert "dropped 1,204  gaps 2  rejected 3" in text[0]
    assert any("1,204 events were dropped" in line for line in text)


def test_the_newest_event_is_first_and_s_reversed_it_is_last() -> None:
    snapshot, page = DETAIL_CASES["one"](), EventsPage()
    first = [line[1:13] for line in draw(page, look_at(snapshot))[3:6]]
    state = MonitorState()
    last = stream(draw(page, look_at(snapshot, state=state), ["S"]))
    assert first == sorted(first, reverse=True)
    assert last[3][1:13] < last[-1][1:13]


def test_a_free_that_names_no_size_has_none() -> None:
    (freed,) = [
        line for line in draw(EventsPage(), look_at(DETAIL_CASES["one"]())) if "freed" in line
    ]
    assert "N/A" in freed.split()


def test_the_ring_shows_what_is_in_it_as_a_size_and_not_as_an_id() -> None:
    ring = LoggedEvent(NOW, None, None, "RING", id=4 << 20)
    picture = draw(EventsPage(), look_at(replace(picture_at(0), events=(ring,))))
    (row,) = [line for line in stream(picture) if "kernel ring" in line]
    assert row.split()[-4:] == ["kernel", "ring", "4.0", "MiB"]


def test_an_event_of_a_newer_server_is_shown_by_its_own_word() -> None:
    newer = replace(picture_at(0), events=(LoggedEvent(NOW, None, None, "TELEPORT"),))
    assert any("unknown event TELEPORT" in line for line in draw(EventsPage(), look_at(newer)))


FAILED = LoggedEvent(
    NOW,
    41235,
    None,
    "ALLOCATION_FAILED",
    "DRAM",
    size=2 << 40,
    name="ttnn::matmul",
    site="models/deep/down/serve.py:88",
    text="TT_FATAL: /a/path.cpp:1\ninfo:\nOut of Memory: " + "a long reason " * 30 + "THE END",
)


def test_the_chosen_event_stands_below_with_its_whole_text() -> None:
    failed = replace(picture_at(0), events=(FAILED,))
    below = " ".join(line.strip() for line in draw(EventsPage(), look_at(failed))[-7:])
    assert "14:03:11.000  allocation FAILED DRAM" in below
    assert "pid 41235" in below
    assert "2.0 TiB  ttnn::matmul  models/deep/down/serve.py:88" in below
    assert "Out of Memory: a long reason" in below
    assert "THE END" in below


@pytest.mark.parametrize("width", [80, 120])
def test_file_and_line_of_a_call_site_are_whole(width: int) -> None:
    op, site = "ttnn.matmul", "/home/alice/models/serve.py:25 layer"
    event = LoggedEvent(NOW, 7, None, "ALLOC", id=1, size=4096, name=op, site=site)
    many = tuple(event._replace(time_ns=NOW + at) for at in range(3))
    lines = draw(EventsPage(), look_at(replace(picture_at(0), events=many), width))

    rows = [line for line in lines if f" {op} " in line and "allocated" in line]
    assert len(rows) >= 3
    assert all("serve.py:25 layer" in line for line in rows)


def test_x_gives_a_long_text_more_room_and_takes_it_back() -> None:
    page, look = EventsPage(), look_at(replace(picture_at(0), events=(FAILED,)), 60, 24)
    assert "THE END" not in "\n".join(draw(page, look))
    assert "more lines: x" in "\n".join(draw(page, look))
    assert "THE END" in "\n".join(draw(page, look, ["x"]))
    assert "THE END" not in "\n".join(draw(page, look, ["x"]))


def test_enter_goes_to_the_device_of_the_event() -> None:
    four, state = DETAIL_CASES["four"](), MonitorState()
    went = EventsPage().key("enter", look_at(four, state=state))
    assert (went, state.device in {d.unique_id for d in four.devices}) == ("Device", True)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(any_details(), *sizes, st.lists(st.sampled_from(["enter", "down", "s", "S", "end", "x"])))
def test_any_events_fit_any_window(
    snapshot: Snapshot, width: int, height: int, keys: list[str]
) -> None:
    draw(EventsPage(), look_at(snapshot, width, height), keys)


def test_what_changes_no_number_is_in_the_stream_and_not_above_it() -> None:
    odd = Anomaly("totals_disagree", "CLASH of totals")
    picture = draw(EventsPage(), look_at(picture_at(0, odd), 200))
    assert not [line for line in picture if line.startswith(" ! ")]
    assert len(rows(EventsPage(), picture_at(0, odd))) == 1


def on_devices(time_ns: int, numbers: range, op: str = "ALLOC", pid: int = 7) -> list[LoggedEvent]:
    return [
        LoggedEvent(time_ns, pid, device(at).unique_id, op, "DRAM", id=64, size=1 << 20)
        for at in numbers
    ]


def mesh_rows(*events: LoggedEvent) -> list[list[str]]:
    """Of the table, the oldest first: its cells without the time."""
    mesh = snapshot([device(at) for at in range(32)], events=events)
    drawn = stream(draw(EventsPage(), look_at(mesh, 200)))
    return [line.split()[1:] for line in reversed(drawn) if line[1:4] == "14:"]


def test_what_a_mesh_does_is_one_row_with_its_devices() -> None:
    events = [*on_devices(NOW, range(32)), *on_devices(NOW + 9, range(32), "FREE")]
    allocated, freed = mesh_rows(*events)
    assert allocated == ["7", "0-31", "allocated", "DRAM", "1.0", "MiB", "0x40"]
    assert freed[:3] == ["7", "0-31", "freed"]


def test_the_same_again_on_the_same_devices_is_a_row_of_its_own() -> None:
    rows = mesh_rows(*on_devices(NOW, range(2)), *on_devices(NOW + 9, range(2)))
    assert [row[1] for row in rows] == ["0-1", "0-1"]


def test_two_processes_at_the_same_time_have_rows_of_their_own() -> None:
    pairs = zip(on_devices(NOW, range(4)), on_devices(NOW, range(4), pid=8), strict=True)
    rows = mesh_rows(*(event for pair in pairs for event in pair))
    assert sorted(row[:2] for row in rows) == [["7", "0-3"], ["8", "0-3"]]


def test_what_another_device_does_much_later_is_not_the_same_step() -> None:
    rows = mesh_rows(*on_devices(NOW, range(1)), *on_devices(NOW + 2 * SECOND, range(1, 2)))
    assert [row[1] for row in rows] == ["0", "1"]


def test_the_chosen_event_of_a_mesh_names_its_devices() -> None:
    mesh = snapshot([device(at) for at in range(4)], events=on_devices(NOW, range(3)))
    below = " ".join(draw(EventsPage(), look_at(mesh))[-7:])
    assert "devices 0-2" in below
