"""Bytes as keys and clicks, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.views.monitor.terminal import Click, Event, KeyDecoder


def decoded(*pieces: bytes) -> list[Event]:
    """The pieces one after the other, then nothing more."""
    decoder = KeyDecoder()
    found = [event for piece in pieces for event in decoder.feed(piece)]
    return [*found, *decoder.flush()]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"aQ/1", ["a", "Q", "/", "1"]),
        ("é推".encode(), ["é", "推"]),
        (b" \t\r\n\x7f\x08", ["space", "tab", "enter", "enter", "backspace", "backspace"]),
        (b"\x03\x1a", ["ctrl+c", "ctrl+z"]),
        (b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        (b"\x1bOA\x1bOB\x1bOH\x1bOF\x1bOM", ["up", "down", "home", "end", "enter"]),
        (b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~", ["pageup", "pagedown", "home", "end"]),
        (b"\x1b[Z", ["shift+tab"]),
        (b"\x1b[<0;8;3M\x1b[<0;8;3m", [Click(7, 2)]),
        (b"\x1b[<64;1;1M\x1b[<65;1;1M", ["up", "down"]),
        (b"\x1b[M \x28\x23", [Click(7, 2)]),
        (b"\x1b[M#\xff\x23q", ["q"]),
    ],
)
def test_keys_and_clicks(data: bytes, events: list[Event]) -> None:
    assert decoded(data) == events


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"\x1b", ["escape"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b\x1b", ["escape", "escape"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x1b[", ["escape", "["]),
        (b"\x1bO", ["escape", "O"]),
        (b"\x1b\xff", ["escape"]),
    ],
)
def test_escape_and_a_quick_key_are_both_there(data: bytes, events: list[Event]) -> None:
    assert decoded(data) == events


def test_an_escape_waits_until_it_cannot_be_the_beginning_of_a_sequence() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waiting
    assert decoder.feed(b"[") == []
    assert decoder.feed(b"B") == ["down"]
    assert not decoder.waiting


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe\x80q", b"\xc3q", b"\x1b[?62;4cq", b"\x1b[Iq", b"\x1b[1;5Aq", b"\x00\x01\x0bq"],
)
def test_what_is_no_key_is_skipped(data: bytes) -> None:
    assert decoded(data) == ["q"]


PIECES = (b"a", b"\x1b[A", b"\x1b[<0;8;3M", "é推🙂".encode(), b"\x1bOB", b"\t", b"\x1b[5~", b"\xff")


@given(st.lists(st.sampled_from(PIECES)), st.lists(st.integers(0, 60), max_size=4))
def test_it_does_not_matter_where_the_bytes_are_cut(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = [data[low:high] for low, high in pairwise(at)]

    assert decoded(*parts) == decoded(data)


@given(st.lists(st.binary(max_size=80), max_size=8))
def test_no_bytes_break_it_or_pile_up(pieces: list[bytes]) -> None:
    decoder = KeyDecoder()
    for piece in pieces:
        decoder.feed(piece)
    decoder.feed(b"\x1b[" + b"0" * 100)
    assert decoder.feed(b"~q")[-1:] == ["q"]
