from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from ttmem.sizes import human
from ttmem.views.ink import Line, Style, line_columns
from ttmem.views.monitor.listing import MOVES, Listing
from ttmem.views.monitor.state import Drawn, MonitorState, Target
from ttmem.views.table import ListColumn, figure


class Fruit(NamedTuple):
    name: str
    size: int | None


COLUMNS: list[ListColumn[Fruit]] = [
    ListColumn("NAME", lambda row: row.name, lambda row: row.name, width=8, grow=1),
    figure("SIZE", lambda row: row.size, human, width=10),
    ListColumn("NOTE", lambda row: "a note", width=12, rank=1),
]
FRUIT = [Fruit("pear", 2048), Fruit("fig", None), Fruit("apple", 512), Fruit("Plum", 4096)]
PAGE = "Fruit"


def listing(rows: list[Fruit], state: MonitorState) -> Listing[Fruit]:
    return Listing(PAGE, COLUMNS, rows, state, first=1, empty="no fruit today")


def text(lines: list[Line]) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in lines]


def draw(rows: list[Fruit], state: MonitorState, width: int = 40, height: int = 8) -> list[str]:
    return text(listing(rows, state).draw(width, height).lines)


def names(rows: list[Fruit], state: MonitorState) -> list[str]:
    return [row.name for row in listing(rows, state).rows]


def header_targets(drawn: Drawn) -> list[Target]:
    return [target for target in drawn.targets if target.line == 0]


def test_the_sorted_column_is_marked_and_the_unknown_is_last() -> None:
    assert draw(FRUIT, MonitorState()) == [
        " NAME                SIZE▼  NOTE",
        ">Plum              4.0 KiB  a note",
        " pear              2.0 KiB  a note",
        " apple               512 B  a note",
        " fig                   N/A  a note",
    ]


def test_a_list_in_one_line_says_how_many_rows_it_has() -> None:
    assert draw(FRUIT, MonitorState(), height=1) == [" 4 rows, no space to list them"]
    assert draw(FRUIT[:1], MonitorState(), height=1) == [" 1 row, no space to list it"]


def test_a_list_in_two_lines_shows_its_only_row_or_says_how_many_it_has() -> None:
    assert draw(FRUIT[:1], MonitorState(), height=2)[1] == ">pear              2.0 KiB  a note"
    assert draw(FRUIT, MonitorState(), height=2)[1] == " 4 rows, no space to list them"


def test_a_narrow_list_drops_the_least_important_column() -> None:
    assert draw(FRUIT, MonitorState(), width=22)[0] == " NAME            SIZE▼"


def test_the_unknown_stays_last_when_the_order_is_reversed() -> None:
    state = MonitorState()
    listing(FRUIT, state).key("S", 8)
    assert names(FRUIT, state) == ["apple", "pear", "Plum", "fig"]


def test_s_goes_to_the_next_column_that_can_sort_and_round() -> None:
    state, sorted_by = MonitorState(), []
    for _ in range(3):
        sorted_by.append(COLUMNS[listing(FRUIT, state).sort_column].title)
        listing(FRUIT, state).key("s", 8)
    assert sorted_by == ["SIZE", "NAME", "SIZE"]


def test_a_click_on_a_title_sorts_by_it_and_a_second_one_reverses() -> None:
    state = MonitorState()
    title = header_targets(listing(FRUIT, state).draw(40, 8))[0]
    title.act(state)
    once = names(FRUIT, state)
    title.act(state)
    assert (once, names(FRUIT, state)) == (
        ["Plum", "apple", "fig", "pear"],
        ["pear", "fig", "apple", "Plum"],
    )


def test_a_click_on_a_row_moves_the_cursor_there_and_nothing_else() -> None:
    state = MonitorState()
    before = draw(FRUIT, state)
    (third,) = [t for t in listing(FRUIT, state).draw(40, 8).targets if t.line == 3]
    third.act(state)
    after = draw(FRUIT, state)
    assert after[3] == ">" + before[3][1:]
    assert [line[1:] for line in after] == [line[1:] for line in before]


def test_targets_know_where_the_list_stands_on_the_page() -> None:
    drawn = listing(FRUIT, MonitorState()).draw(40, 8, top=7)
    assert {target.line for target in drawn.targets} == {7, 8, 9, 10, 11}


def test_the_row_under_the_cursor_is_marked_over_the_whole_width() -> None:
    line = listing(FRUIT, MonitorState()).draw(40, 8).lines[1]
    assert [(len(span.text), span.style) for span in line] == [(40, Style.CURSOR)]


def test_what_is_out_of_sight_is_counted() -> None:
    rows = [Fruit(f"fig {n:04}", n) for n in range(5000)]
    state = MonitorState()
    state.of(PAGE).cursor = 6
    assert draw(rows, state, height=5) == [
        " NAME                SIZE▼  NOTE",
        " fig 4995          4.9 KiB  a note",
        " fig 4994          4.9 KiB  a note",
        ">fig 4993          4.9 KiB  a note",
        " ↑ 4 above  ↓ 4,993 below",
    ]


def test_the_list_moves_only_when_the_cursor_would_leave_it() -> None:
    rows = [Fruit(str(n), -n) for n in range(20)]
    state, first_rows = MonitorState(), []
    for key in ("end", "up", "up", "up", "home", "pagedown", "pagedown"):
        listing(rows, state).key(key, 5)
        first_rows.append(draw(rows, state, height=5)[1].split()[0])
    assert first_rows == ["17", "17", ">17", ">16", ">0", "1", "4"]


def test_a_filter_looks_into_every_column_and_counts() -> None:
    state = MonitorState(filter="PL")
    assert draw(FRUIT, state) == [
        " NAME                SIZE▼  NOTE",
        ">Plum              4.0 KiB  a note",
        " apple               512 B  a note",
        " 2 of 4 match 'PL'",
    ]


def test_a_column_that_is_not_in_sight_is_searched_too() -> None:
    assert len(draw(FRUIT, MonitorState(filter="a NOTE"), width=22)) == 1 + len(FRUIT) + 1


def test_an_empty_list_says_why() -> None:
    assert draw([], MonitorState())[1:] == [" no fruit today"]
    assert draw(FRUIT, MonitorState(filter="kiwi"))[1:] == [
        " nothing matches 'kiwi'",
        " 0 of 4 match 'kiwi'",
    ]


def test_a_number_is_never_cut() -> None:
    rows = [Fruit("melon", 10**30)]
    assert human(10**30) in draw(rows, MonitorState(), width=50)[1]


def test_marks_are_plain_letters_where_there_are_no_others() -> None:
    rows = [Fruit(str(n), n) for n in range(9)]
    lines = text(listing(rows, MonitorState()).draw(40, 4, ascii=True).lines)
    assert (lines[0].split()[1], lines[-1]) == ("SIZEv", " v 7 below")


any_rows = st.lists(st.builds(Fruit, st.text(max_size=40), st.none() | st.integers()), max_size=60)
sizes = (st.integers(1, 240), st.integers(0, 60))
keys = st.lists(st.sampled_from([*MOVES, "s", "S"]), max_size=12)


@given(any_rows, *sizes, keys, st.text(max_size=2), st.integers(), st.booleans())
def test_any_list_fits_any_window_with_its_cursor_in_sight(
    rows: list[Fruit],
    width: int,
    height: int,
    pressed: list[str],
    wanted: str,
    cursor: int,
    ascii: bool,
) -> None:
    state = MonitorState(filter=wanted)
    state.of(PAGE).cursor = cursor
    for key in pressed:
        listing(rows, state).key(key, height)
    drawn = listing(rows, state).draw(width, height, ascii=ascii)
    marked = [line for line in drawn.lines if line and line[0].style is Style.CURSOR]
    assert len(drawn.lines) <= height
    assert [line for line in drawn.lines if line_columns(line) > width] == []
    assert [t for t in drawn.targets if not 0 <= t.line < len(drawn.lines)] == []
    found = len(listing(rows, state).rows)
    assert len(marked) == (1 if 0 < found < height or (found and height > 2) else 0)


@given(any_rows, st.integers(0, 5), st.booleans(), st.text(max_size=2))
def test_sorting_and_filtering_invent_and_lose_nothing(
    rows: list[Fruit], sort: int, reverse: bool, wanted: str
) -> None:
    state = MonitorState()
    state.of(PAGE).sort, state.of(PAGE).reverse = sort, reverse
    everything = listing(rows, state).rows
    state.filter = wanted
    some = listing(rows, state).rows
    assert sorted(map(repr, everything)) == sorted(map(repr, rows))
    assert [row for row in everything if row in some] == some


@given(any_rows, st.booleans())
def test_the_known_are_in_order_and_before_the_unknown(rows: list[Fruit], reverse: bool) -> None:
    state = MonitorState()
    state.of(PAGE).reverse = reverse
    sizes = [row.size for row in listing(rows, state).rows]
    known = [size for size in sizes if size is not None]
    assert sizes == sorted(known, reverse=not reverse) + [None] * (len(sizes) - len(known))
