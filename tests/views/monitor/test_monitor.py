"""What keys and clicks do to the monitor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.views.cases import empty_host, four_devices, one_device
from tests.views.monitor.monitors import Desk
from ttmem.snapshots import LoggedEvent, Question
from ttmem.views.ink import Line
from ttmem.views.monitor.live_data import Choice
from ttmem.views.monitor.state import Drawn, Look


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.answer(four_devices())
    return made


def test_digits_switch_the_page_and_a_page_that_is_not_there_changes_nothing(desk: Desk) -> None:
    desk.press("2")
    assert desk.monitor.page is desk.second
    desk.press("6", "0", "x")
    assert desk.monitor.page is desk.second


def test_a_page_is_shown_when_the_feed_has_told_its_details(desk: Desk) -> None:
    desk.press("2")
    assert desk.monitor.question().detail[:1] == ("buffers",)
    assert "First: 4 devices" in desk.screen(), "what was there, for a moment"

    desk.answer(replace(four_devices(), buffers=()))
    assert "Second: 4 devices, details: buffers" in desk.screen()


def test_enter_goes_deeper_and_escape_comes_back(desk: Desk) -> None:
    desk.press("enter")
    assert desk.monitor.page is desk.second
    desk.press("escape")
    assert desk.monitor.page is desk.first


def test_a_click_on_a_tab_or_on_a_row_goes_there(desk: Desk) -> None:
    tabs = desk.lines()[1]
    desk.monitor.click(tabs.index("Second"), 1)
    assert desk.monitor.page is desk.second

    desk.press("1")
    row = next(at for at, line in enumerate(desk.lines()) if line.startswith("row 0"))
    desk.monitor.click(3, row)
    assert desk.monitor.page is desk.second


def test_a_click_beside_everything_changes_nothing(desk: Desk) -> None:
    desk.lines()
    for column, line in ((0, 0), (79, 23), (500, 500), (-1, -1)):
        desk.monitor.click(column, line)
    assert desk.monitor.page is desk.first


def test_the_filter_is_typed_and_escape_clears_it(desk: Desk) -> None:
    desk.press("/", *"pq", "space", "1", "backspace", "enter")
    assert desk.monitor.state.filter == "pq "
    assert not desk.monitor.done

    desk.press("escape")
    assert desk.monitor.state.filter == ""


def test_arrows_move_the_cursor_while_a_filter_is_typed(desk: Desk) -> None:
    desk.press("/", "down", "a")
    assert desk.first.pressed == ["down"]
    assert desk.monitor.state.filter == "a"


def test_keys_that_the_frame_does_not_know_go_to_the_page(desk: Desk) -> None:
    desk.press("s", "S", "up", "pagedown", "x")
    assert desk.first.pressed == ["s", "S", "up", "pagedown", "x"]


def test_tab_walks_through_the_devices_in_both_directions(desk: Desk) -> None:
    ids = [device.unique_id for device in four_devices().devices]
    desk.press("tab")
    assert desk.monitor.state.device == ids[1]
    desk.press("shift+tab", "shift+tab")
    assert desk.monitor.state.device == ids[3]


def test_the_interval_has_steps_and_ends(desk: Desk) -> None:
    desk.press("+")
    assert desk.monitor.interval == 0.5
    desk.press(*["+"] * 9)
    assert desk.monitor.interval == 0.1
    desk.press(*["-"] * 9)
    assert desk.monitor.interval == 10


def test_the_help_has_every_column_of_every_page_and_where_numbers_come_from(desk: Desk) -> None:
    desk.press("?")
    screen = desk.screen(120, 60)
    assert "a row of First; counted, not measured" in screen
    assert "a row of Second; counted, not measured" in screen
    assert "Keys of every page" in screen
    desk.press("h")
    assert "First: 4 devices" in desk.screen()


def test_the_help_scrolls_to_its_end_and_no_further(desk: Desk) -> None:
    desk.press("h", "end")
    assert "end of the help; Esc closes it" in desk.screen()
    desk.press(*["down"] * 5, "home")
    assert " Keys of every page" in desk.lines()


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_and_ctrl_c_end_it(desk: Desk, key: str) -> None:
    desk.press(key)
    assert desk.monitor.done


def test_a_held_picture_stays_while_the_feed_is_watched(desk: Desk) -> None:
    desk.press("space")
    desk.answer(one_device())
    desk.answer(empty_host())
    assert "First: 1 devices" in desk.screen(), "the one complete picture that was asked for"
    desk.clock.now += 60
    assert "no answer" in desk.screen()

    desk.press("p")
    desk.answer(empty_host())
    assert "First: 0 devices" in desk.screen()
    assert not desk.monitor.state.paused


def test_a_held_picture_has_the_details_of_every_page(desk: Desk) -> None:
    desk.press("space")
    question = desk.answer(replace(four_devices(), buffers=(), events=()))
    assert set(question.detail) == {"programs", "buffers", "cores", "events"}

    desk.press("2")
    assert "Second: 4 devices, details: buffers, events" in desk.screen()
    assert desk.monitor.question() == Question()


SEEN = LoggedEvent(1, 7, None, "ALLOC", id=1)


def test_events_that_were_on_the_screen_when_it_was_held_stay(desk: Desk) -> None:
    desk.answer(replace(four_devices(), events=(SEEN,)))
    desk.press("space")
    desk.answer(replace(four_devices(), events=(SEEN._replace(id=2),)))

    assert desk.watch.shown is not None
    assert desk.watch.shown.snapshot.events == (SEEN,)


def test_the_past_is_asked_for_once_and_again_after_trouble() -> None:
    desk = Desk()
    asked = [desk.answer(four_devices()).detail for _ in range(3)]
    assert asked == [(), ("history",), ()]

    desk.fail("the server closed the connection")
    assert desk.answer(four_devices()).detail == ("history",)
    assert desk.answer(four_devices()).detail == ()


def test_a_chosen_device_that_vanishes_is_named_and_the_others_stay() -> None:
    desk = Desk(Choice(devices=("0", "17")))
    desk.answer(four_devices())
    assert "not there (yet): device 17" in desk.screen()
    assert "First: 1 devices" in desk.screen()

    desk.answer(empty_host())
    assert "device 0, device 17" in desk.screen()
    assert "First: 0 devices" in desk.screen()


def test_a_chosen_process_narrows_the_picture() -> None:
    desk = Desk(Choice(pids=(42001, 1)))
    desk.answer(four_devices())
    assert desk.watch.shown is not None
    assert [process.pid for process in desk.watch.shown.snapshot.processes] == [42001]
    assert "process 1" in desk.screen()


def test_a_chosen_process_is_named_on_every_page() -> None:
    desk = Desk(Choice(pids=(42001,)))
    desk.answer(four_devices())
    assert "only pid 42001; device figures include all" in desk.screen()


def test_a_page_that_fails_apologises_and_the_others_work(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(look: Look) -> Drawn:
        lines: list[Line] = []
        return Drawn([lines[len(look.snapshot.devices)]])

    monkeypatch.setattr(desk.first, "draw", broken)

    assert "failed (IndexError" in " ".join(desk.lines(200, 24))
    assert [fault.splitlines()[0] for fault in desk.monitor.faults] == [
        "the page First failed (IndexError: list index out of range); please report it"
    ]
    desk.press("h")
    assert "Keys of every page" in desk.screen()


def test_a_key_that_fails_says_so_until_another_works(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(key: str, look: Look) -> str | None:
        return str(1 // (key == "y"))

    monkeypatch.setattr(desk.first, "key", broken)
    sentence = "the key 'x' on the page First failed (ZeroDivisionError"

    desk.press("x", "x", "x")
    assert sentence in desk.screen(120)
    assert len(desk.monitor.faults) == 1, "each fault is told once"
    assert "in broken" in next(iter(desk.monitor.faults)), "with the place"

    desk.press("y")
    assert sentence not in desk.screen(120)


def test_a_click_that_fails_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.monitor, "go", lambda name, before: 1 // 0)
    tabs = desk.lines()[1]
    desk.monitor.click(tabs.index("Second"), 1)
    assert "a click on the page First failed (ZeroDivisionError" in desk.screen(120)
