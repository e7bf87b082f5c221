"""Hostile names reach no terminal unescaped, and break no page or document."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.exporters.history import record
from tests.recording.rewriting import HOSTILE, Change, with_texts
from tests.views.monitor.terminal_program import TerminalProgram
from ttmem.commands import main

VERBS = (
    ("ps", "--at", "end"),
    ("ps", "--at", "#40", "--by", "site"),
    ("dump",),
    ("info",),
    ("peak",),
    ("leaks",),
    ("explain",),
    ("size",),
)
Captured = pytest.CaptureFixture[str]
every_text = pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=[pytest.mark.slow] if name == "huge" else [])
        for name, text in HOSTILE.items()
    ],
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.ttmem"
    record(path)
    return path


@pytest.fixture
def hostile(plain: Path, text: Change, tmp_path: Path) -> Path:
    path = tmp_path / "hostile.ttmem"
    path.write_bytes(with_texts(plain, text))
    return path


def printed(capsys: Captured, verb: str, *arguments: object) -> tuple[int, str]:
    code = main([verb, *map(str, arguments)])
    said = capsys.readouterr()
    assert said.err == "", verb
    return code, said.out


def controls(text: str) -> set[str]:
    return {letter for letter in text if not letter.isprintable()} - {"\n"}


def shape(value: Any) -> Any:
    """A document without its texts."""
    if isinstance(value, dict):
        return [(key, shape(entry)) for key, entry in value.items()]
    if isinstance(value, list):
        return sorted(map(repr, map(shape, value)))
    return "text" if isinstance(value, str) else value


@every_text
def test_no_verb_prints_a_control_character(plain: Path, hostile: Path, capsys: Captured) -> None:
    for verb, *options in VERBS:
        expected, _ = printed(capsys, verb, plain, *options)
        code, text = printed(capsys, verb, hostile, *options)
        assert (code, controls(text)) == (expected, set()), (verb, options)
        assert len(text) < 100_000, (verb, options)


@every_text
def test_json_has_the_same_shape_and_is_safe_to_look_at(
    plain: Path, hostile: Path, capsys: Captured
) -> None:
    for verb, *options in VERBS:
        expected, document = printed(capsys, verb, plain, *options, "--json")
        code, text = printed(capsys, verb, hostile, *options, "--json")
        assert (code, controls(text)) == (expected, set()), (verb, options)
        found = [json.loads(output) for output in (text, document)]
        if verb == "info":  # the sizes of the files differ
            found = [document | {"bytes": 0, "bytes_by_type": {}} for document in found]
        assert shape(found[0]) == shape(found[1]), (verb, options)


class Elements(HTMLParser):
    """Every element with the names of its attributes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, list[str]]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, [name for name, _ in attrs]))


@every_text
def test_a_report_has_the_elements_that_it_always_has(
    plain: Path, hostile: Path, tmp_path: Path, capsys: Captured
) -> None:
    renamed = hostile.rename(tmp_path / "\"'><script>owned()<.ttmem")
    pages = tmp_path / "plain.html", tmp_path / "hostile.html"

    for file, page in zip((plain, renamed), pages, strict=True):
        assert main(["report", str(file), "-o", str(page)]) == 0

    assert Elements(pages[1]).found == Elements(pages[0]).found
    assert "owned()<" not in pages[1].read_text()
    assert controls(capsys.readouterr().out) == set()


@pytest.fixture
def runs(tmp_path: Path, plain: Path) -> tuple[Path, Path]:
    """A run, and one that held less at its peaks."""
    part = tmp_path / "part.ttmem"
    assert main(["cut", str(plain), "--to", "#60", "-o", str(part)]) == 0
    return part, plain


@every_text
def test_a_comparison_keeps_its_rows_and_elements(
    runs: tuple[Path, Path], text: Change, tmp_path: Path, capsys: Captured
) -> None:
    poisoned = []
    for number, file in enumerate(runs):
        poisoned.append(tmp_path / f"{number}|`<script>.ttmem")
        poisoned[-1].write_bytes(with_texts(file, text))
    pages = tmp_path / "plain.html", tmp_path / "hostile.html"
    capsys.readouterr()

    for both, page in zip((runs, poisoned), pages, strict=True):
        assert main(["diff", *map(str, both), "-o", str(page)]) == 0
    capsys.readouterr()
    _, table = printed(capsys, "diff", *poisoned)
    _, expected = printed(capsys, "diff", *runs, "--markdown")
    _, markdown = printed(capsys, "diff", *poisoned, "--markdown")

    assert Elements(pages[1]).found == Elements(pages[0]).found
    assert controls(table) | controls(markdown) == set()
    assert cells(markdown) == cells(expected)
    assert len(cells(markdown)) > 6  # there are rows with call sites


def cells(markdown: str) -> list[int]:
    """The number of cells in each row of each table, by the rules of GitHub: `\\|` divides nothing, even in code."""
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    return [len(re.findall(r"(?<!\\)\|", row)) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["escapes", "line ends", "huge"])
def test_the_monitor_sends_no_sequence_of_a_file_to_the_terminal(
    plain: Path, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.ttmem"
    path.write_bytes(with_texts(plain, HOSTILE[name]))

    with TerminalProgram([sys.executable, "-m", "ttmem", "top", str(path)]) as program:
        program.wait_for("PROCESSES 2")
        for page, word in (
            ("2", "CAPACITY"),
            ("3", "percent"),
            ("4", "footprint"),
            ("5", "HELD"),
            ("6", "EVENT"),
        ):
            program.press(page)
            program.wait_for(word)
        program.press("q")
        assert program.wait_for_end() == 0

    assert controls(program.whole_text) <= {"\r"}
    assert b"\x1b]52" not in program.output
    assert b"\rOWNED" not in program.output
