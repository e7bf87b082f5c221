"""Rows in a server's answer are read only if they mean what this version thinks they mean."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from ttmem.errors import BadInput
from ttmem.snapshots import Buffer, Cores
from ttmem.snapshots.native_rows import Names, column_counts, received

NAMES = Names({0: 41}, {0: "chip"}, {0: {5: "model.py:1"}})
ROW = pack("<12Q", 0, 0, 0, 7, 64, 128, 4096, 9, 1, 0, 5, 0)
ROWS = {"buffers": ROW}
ANSWER: dict[str, Any] = {"names": NAMES.to_json(), "columns": column_counts(ROWS)}


def test_names_stand_for_the_numbers_in_rows() -> None:
    (buffer,) = received(ANSWER, ROWS)["buffers"]

    assert buffer == Buffer(41, "chip", "DRAM", 7, 4096, 64, 128, 1, 9, None, "model.py:1")
    assert buffer.held == 128


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ({**ANSWER, "columns": {"buffers": 13}}, ROWS),
        ({**ANSWER, "columns": {}}, ROWS),
        (ANSWER, {"buffers": ROW + bytes(8)}),
        ({"names": ANSWER["names"]}, {"buffers": ROW + bytes(8)}),
    ],
    ids=["one more", "none named", "a torn row", "a torn row of an older server"],
)
def test_other_columns_are_one_error_that_says_what_to_do(
    answer: dict[str, Any], rows: dict[str, bytes]
) -> None:
    with pytest.raises(BadInput, match="use the same version of ttmem on both sides"):
        received(answer, rows)


def test_an_older_server_does_not_name_its_columns() -> None:
    assert received({"names": ANSWER["names"]}, ROWS) == received(ANSWER, ROWS)


@pytest.mark.parametrize(
    "names",
    [
        None,
        {},
        {**NAMES.to_json(), "pids": [[0, "x"]]},
        {**NAMES.to_json(), "devices": [[0, 7]]},
        {**NAMES.to_json(), "strings": [[0, [[5, None]]]]},
        {**NAMES.to_json(), "strings": [7]},
        {**NAMES.to_json(), "uncounted": [[0, 7]]},
    ],
    ids=repr,
)
def test_damaged_names_are_refused(names: Any) -> None:
    with pytest.raises(BadInput, match="damaged"):
        received({**ANSWER, "names": names}, ROWS)


@pytest.mark.parametrize("kind", [5, 77, 2**64 - 1])
def test_a_kind_of_memory_that_nobody_knows_is_damage(kind: int) -> None:
    with pytest.raises(BadInput, match="damaged"):
        received(ANSWER, {"buffers": pack("<12Q", 0, 0, kind, *[0] * 9)})


def test_rows_of_a_process_without_a_name_are_damage() -> None:
    with pytest.raises(BadInput, match="damaged"):
        received(ANSWER, {"buffers": pack("<12Q", 3, *[0] * 11)})


def test_a_set_of_cores_is_what_was_put_into_it() -> None:
    cores = Cores.of([(3, 0), (31, 31), (0, 2)])

    assert list(cores) == [(3, 0), (0, 2), (31, 31)]
    assert len(cores) == 3
    beyond = [(32, 0), (0, 32), (-1, 0)]
    assert [core for core in [(0, 2), (2, 0), *beyond] if core in cores] == [(0, 2)]
    assert Cores.from_mask(cores.bits.to_bytes(128, "little")) == cores
