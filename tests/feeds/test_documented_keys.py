"""docs/numbers.md names the keys that JSON has, no more and no fewer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.probe.watched import Watched
from ttmem.feeds import LocalFeed
from ttmem.snapshots import to_json

Watch = Callable[..., Watched]
NUMBERS = Path(__file__).parents[2] / "docs" / "numbers.md"
DETAILS = ("buffers", "programs", "events")
KEYS = re.compile(r"  (\w+(?:, \w+)*)(?:  +\S.*)?")  # two columns: keys, and what they mean


def documented(name: str) -> set[str]:
    """The keys in the lines under a name, up to the next name or the end of the block."""
    lines = NUMBERS.read_text().splitlines()
    keys: set[str] = set()
    for line in lines[lines.index(f"{name}[]") + 1 :]:
        if line and not line.startswith(" "):
            break
        if found := KEYS.fullmatch(line):
            keys.update(found[1].split(", "))
    return keys


@pytest.fixture
def document(watch: Watch, tmp_path: Path) -> dict[str, Any]:
    process = watch(
        "mesh = lib.mesh_open(1); buffer(mesh, 7, 0, 4000)\n"
        "program = lib.program_make(5, mesh, 4096, 2)\n"
        "say('made'); input()"
    )
    process.wait_for("made")
    with closing(LocalFeed(str(tmp_path))) as feed:
        return to_json(feed.read(DETAILS))


@pytest.mark.parametrize("name", ["buffers", "programs", "circular_buffers", "events"])
def test_the_keys_of_a_detail_are_those_of_the_page(document: dict[str, Any], name: str) -> None:
    (first, *_) = document[name]

    assert set(first) == documented(name)


def test_the_keys_of_a_process_are_those_of_the_page(document: dict[str, Any]) -> None:
    (process,) = document["processes"]

    assert set(process) == documented("processes")


def _keys(value: Any) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        if not key.isdecimal():  # the unique id of a device
            yield key
        yield from _keys(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _keys(inner)


def test_no_key_of_the_document_is_missing_from_the_page(document: dict[str, Any]) -> None:
    words = set(re.findall(r"\w+", NUMBERS.read_text()))

    assert set(_keys(document)) - words == set()
