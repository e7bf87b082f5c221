"""The time bar: a recording of a minute with three markers, and a feed that goes where it is asked to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.patience import wait_until
from tests.views.cases import four_devices
from tests.views.monitor.monitors import Desk
from ttmem.clock import now_ns
from ttmem.errors import BadInput
from ttmem.feeds.recording_feed import RecordingFeed
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described
from ttmem.views.monitor.timeline import LiveTimeline, Mark, Timeline

SECOND = 1_000_000_000
STARTED = 1_700_000_000 * SECOND
MARKS = (
    Mark(STARTED + 10 * SECOND, 100, "phase", "prefill"),
    Mark(STARTED + 30 * SECOND, 300, "failure", "DRAM: 4.0 GiB"),
    Mark(STARTED + 50 * SECOND, 500, "mark", "after warm-up"),
)


class Recorded:
    """A feed: ten events a second for a minute."""

    growing = False

    def __init__(self) -> None:
        self.span: Any = None
        self.at: str | float = "start"
        self.bar = Timeline(self, STARTED, STARTED + 60 * SECOND, MARKS)

    @property
    def position(self) -> int:
        at = str(self.at)
        if at.startswith("#"):
            return int(at[1:])
        if at.endswith("s"):
            return round(float(at[:-1]) * 10)
        return {"start": 0, "end": 600, "peak:l1": 420}[at]

    @property
    def reached(self) -> tuple[int, int] | None:
        return self.position, STARTED + self.position * SECOND // 10

    @reached.setter
    def reached(self, value: tuple[int, int] | None) -> None:
        raise AssertionError("it is read only")

    def press(self, *keys: str) -> int:
        for key in keys:
            assert self.bar.press(key, 0.0)
        return self.position


class Still:
    """A feed that shows one instant."""

    growing = False
    span = None

    def __init__(self, time_ns: int) -> None:
        self.at: str | float = "end"
        self.reached: tuple[int, int] | None = (0, time_ns)


@pytest.mark.parametrize(
    ("keys", "position"),
    [
        ((".", ".", ".", ","), 2),
        (("}", "}", "{"), 10),
        ((">",), 100),
        ((">", ">"), 300),
        (("end", "<"), 500),
        (("end", "<", "<", "<", "<"), 100),
        (("end", "home"), 0),
        (("g", *"2.5s", "enter"), 25),
        (("g", *"peak:l1", "enter"), 420),
        (("g", *"marker", "enter"), 100),
        ((">", "g", *"9s", "escape"), 100),
        (("{", ","), 0),
    ],
)
def test_keys_go_to_events_seconds_markers_and_named_instants(
    keys: tuple[str, ...], position: int
) -> None:
    assert Recorded().press(*keys) == position


def test_it_plays_at_the_chosen_speed_and_stops_at_the_end() -> None:
    recorded = Recorded()
    recorded.press("+", "space")  # twice as fast
    recorded.bar.tick(5.0)
    after_five = recorded.position
    recorded.bar.tick(100.0)

    assert after_five == 100
    assert (recorded.position, recorded.bar.playing) == (600, False)


def test_played_again_at_the_end_it_begins_at_the_start() -> None:
    recorded = Recorded()
    recorded.press("end", "space")
    recorded.bar.tick(1.0)
    assert recorded.position == 10


def test_stepping_pauses() -> None:
    recorded = Recorded()
    recorded.press("space", ".")
    assert not recorded.bar.playing


def test_an_instant_that_there_is_not_leads_back_to_the_one_before() -> None:
    recorded = Recorded()
    recorded.press(">")
    with pytest.raises(KeyError):
        recorded.press("g", *"peak:dram", "enter")
    recorded.bar.refuse()
    assert recorded.at == "#100"


def test_the_bar_shows_the_time_the_markers_and_the_last_of_them() -> None:
    recorded = Recorded()
    recorded.press(">", ">")
    line = "".join(span.text for span in recorded.bar.line(80, ascii=False))

    assert line.startswith(" paused  30.000 s / 60.0 s  ━")
    assert line.endswith("failure: DRAM: 4.0 GiB")
    assert (line.count("┃"), line.count("●")) == (2, 1)
    assert len(line) <= 80


def test_the_bar_names_the_marker_it_went_to_and_failures_first() -> None:
    recorded = Recorded()
    same = [Mark(MARKS[1].time_ns, 300, kind, "") for kind in ("failure", "phase")]
    late = Mark(STARTED + 51 * SECOND, 500, "end", "pid 41")  # later than the event before it
    recorded.bar = Timeline(recorded, STARTED, STARTED + 60 * SECOND, [*same, late])

    recorded.at = "30s"
    assert _text(recorded.bar.line(80, ascii=False)).endswith("failure: ")
    recorded.at = "50s"
    assert _text(recorded.bar.line(80, ascii=False)).endswith("failure: ")
    recorded.at = "30s"
    recorded.press(">")
    assert recorded.at == "#500"
    assert _text(recorded.bar.line(80, ascii=False)).endswith("end: pid 41")


@pytest.mark.parametrize(
    ("length_ns", "said"),
    [
        (27_800_000, "13.900 ms / 27.800 ms"),
        (250_000_000, "0.125 s / 0.250 s"),
        (9 * SECOND, "4.500 s / 9.000 s"),
        (7200 * SECOND, "3,600.000 s / 7,200.0 s"),
    ],
)
def test_a_recording_of_any_length_has_a_length(length_ns: int, said: str) -> None:
    bar = Timeline(Still(STARTED + length_ns // 2), STARTED, STARTED + length_ns)
    line = "".join(span.text for span in bar.line(120, ascii=True))
    assert f"  {said}  " in line


def test_the_help_lists_the_keys_of_the_time_bar_and_not_what_they_do_live() -> None:
    desk = Desk()
    desk.monitor.timeline = Recorded().bar
    desk.answer(four_devices())
    desk.press("h")
    screen = desk.screen(120, 40)

    assert "Time bar" in screen
    assert "plays the recording, and pauses it" in screen
    assert "to the start or the end of the recording" in screen
    assert "sorting and pages work while paused" not in screen
    assert "reads more or less often" not in screen


def test_which_instant_was_opened_is_said_until_the_user_moves() -> None:
    recorded, desk = Recorded(), Desk()
    desk.monitor.timeline = recorded.bar
    desk.monitor.notice = "opened at the peak of DRAM: nothing is allocated at the end"
    desk.answer(four_devices())
    desk.press("2")
    before = desk.screen(120)
    desk.press(">")

    assert "opened at the peak of DRAM" in before
    assert "opened at the peak of DRAM" not in desk.screen(120)


def test_what_is_typed_stands_in_the_bar_with_what_can_be_typed() -> None:
    recorded = Recorded()
    recorded.press("g", *"12x", "backspace")
    line = "".join(span.text for span in recorded.bar.line(200, ascii=True))
    assert line.startswith(" go to: 12_  (12.5s, ")


def test_a_file_that_is_still_being_written_says_so_and_is_followed_at_its_end() -> None:
    recorded = Recorded()
    recorded.growing = True
    recorded.press("end")
    at_end = "".join(span.text for span in recorded.bar.line(120, ascii=True))
    recorded.press("home")
    elsewhere = "".join(span.text for span in recorded.bar.line(120, ascii=True))

    assert at_end.startswith(" follows  60.000 s / 60.0 s, still being written  ")
    assert elsewhere.startswith(" paused  0.000 s / 60.0 s, still being written  ")


def test_other_keys_are_left_to_the_page() -> None:
    assert not Recorded().bar.press("up", 0.0)


def test_in_the_monitor_a_jump_asks_for_its_history_and_a_bad_one_is_said_and_undone() -> None:
    recorded, desk = Recorded(), Desk()
    desk.monitor.timeline = recorded.bar
    desk.answer(four_devices())
    desk.answer(four_devices())
    desk.press("}")
    asked = desk.monitor.question().detail
    desk.fail("there is no failed allocation in this recording")
    desk.monitor.tick()
    screen = desk.screen(120)

    assert "history" in asked
    assert recorded.at == "start"
    assert "! there is no failed allocation in this recording" in screen
    assert "DISCONNECTED" not in screen
    assert "space play/pause" in screen


class Past(NamedTuple):
    """As `ttmem.feeds.past.Span`."""

    started_ns: int
    ended_ns: int
    markers: Sequence[Mark]
    forgotten: bool


class Live:
    """A live feed that has kept a minute; ten events a second."""

    growing = False

    def __init__(self, missing: str = "") -> None:
        self.at: str | float = "live"
        self.missing = missing
        self.note = ""
        self.span: Any = None
        self.reached: tuple[int, int] | None = (0, STARTED + 60 * SECOND)
        self.bar = LiveTimeline(self)

    def press(self, *keys: str) -> str:
        """What is asked for after these keys, each of which is followed by an answer."""
        for key in keys:
            self.bar.press(key, 0.0)
            self.answer()
        return str(self.at)

    def answer(self) -> None:
        at, end = str(self.at), STARTED + 60 * SECOND
        if at == "live":
            self.reached = 0, end
            return
        self.span = Past(STARTED, end, MARKS, forgotten=True)
        time_ns = int(at[1:]) if at.startswith("@") else end
        if at.startswith("#"):
            time_ns = STARTED + int(at[1:]) * SECOND // 10
        self.reached = (time_ns - STARTED) * 10 // SECOND, time_ns
        self.bar.line(80, ascii=True)


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        (("{",), f"@{STARTED + 59 * SECOND}"),
        (("{", "{", "}"), f"@{STARTED + 59 * SECOND}"),
        (("{", "}", "}"), "live"),
        (("space",), f"@{STARTED + 60 * SECOND}"),
        ((",",), "last event"),
        (("<",), "last marker"),
        (("{", "<"), "#500"),
        (("{", "end"), "live"),
        (("g", *"peak:l1", "enter"), "peak:l1"),
        (("{", "g", *"end", "enter"), "live"),
    ],
)
def test_a_live_monitor_goes_back_with_the_same_keys_and_returns(
    keys: tuple[str, ...], at: str
) -> None:
    assert Live().press(*keys) == at


def test_a_live_monitor_has_no_bar_until_it_goes_back_and_leaves_other_keys_to_the_page() -> None:
    live = Live()
    unknown = [key for key in ("home", "end", "+", "-", "}", ".", ">") if live.bar.press(key, 0.0)]

    assert unknown == []
    assert live.bar.line(80, ascii=False) == ()
    live.press("{")
    line = "".join(span.text for span in live.bar.line(80, ascii=False))
    assert line.startswith(" paused  59.000 s / 60.0 s  ━")


def test_what_is_played_up_to_the_present_is_live_again() -> None:
    live = Live()
    live.press("{", "space")
    live.bar.tick(0.5)
    between = str(live.at)
    live.bar.tick(1.5)

    assert between == f"@{STARTED + 59 * SECOND + SECOND // 2}"
    assert live.at == "live"


def test_phases_of_a_loop_do_not_hide_failures_and_starts() -> None:
    recorded = Recorded()
    loop = [
        Mark(STARTED + at * SECOND // 4, 2 * at + 1, "phase", ("prefill", "decode")[at % 2])
        for at in range(240)
    ]
    marks = sorted([*loop, *MARKS[1:]], key=lambda mark: mark.position)
    recorded.bar = Timeline(recorded, STARTED, STARTED + 60 * SECOND, marks)

    drawn = _text(recorded.bar.line(100, ascii=True))
    stops = []
    for _ in range(6):
        recorded.bar.press(">", 0.0)
        stops.append(recorded.position)

    assert drawn.count("|") <= 3
    assert "!" in drawn
    assert stops == [1, 3, 300, 500, 500, 500]


def test_a_live_monitor_says_live_and_how_to_go_back_and_why_it_cannot() -> None:
    live, desk = Live("the past is not kept: only root may"), Desk()
    desk.monitor.timeline = live.bar
    desk.answer(four_devices())
    before = desk.screen(120)
    desk.press("{")
    refused = desk.screen(120)
    desk.press("space")
    paused = desk.screen(120)

    assert "live  every 1 s" in before
    assert "{ go back" in before
    assert "! the past is not kept: only root may" in refused
    assert "space continues" in paused  # the picture can be held in any case


def test_the_end_of_what_is_kept_is_said_in_the_bar() -> None:
    live = Live()
    live.press("{")
    live.note = "what was before is forgotten"
    assert "what was before is forgotten" in "".join(
        span.text for span in live.bar.line(120, ascii=False)
    )


def test_markers_of_a_file_that_grows_come_into_the_bar(tmp_path: Path) -> None:
    path = str(tmp_path / "growing.ttmem")
    books = Books()
    recorder = Recorder(books, FileSink(path), described())
    recorder.mark("first", now_ns())
    wait_until(lambda: _marks(path) == ["first"])
    with closing(RecordingFeed(path)) as feed:
        bar = Timeline.of(feed)
        feed.read()
        before = _text(bar.line(100, False))

        recorder.mark("second", now_ns())
        wait_until(lambda: _marks(path) == ["first", "second"])
        feed.read()
        after = _text(bar.line(100, False))
    recorder.close()

    assert "follows" in after
    assert before.endswith("mark: first")
    assert after.endswith("mark: second")
    assert bar.press("<", 0.0)


def _marks(path: str) -> list[str]:
    try:
        with Recording(path) as recording:
            return [marker.text for marker in recording.markers]
    except BadInput:  # nothing in it yet
        return []


def _text(line: Sequence[Any]) -> str:
    return "".join(span.text for span in line)
