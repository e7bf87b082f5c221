"""`ttmem report`: one page that says what `ttmem ps FILE --at` says, of any recording."""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.analysis.runs import Run
from tests.exporters.history import record
from tests.ledger.oracle import region, slot
from tests.own_process import ran
from tests.web.decoded import ask, node, payload_of
from ttmem.commands import main
from ttmem.events import Amounts, Event, Op
from ttmem.ledger import Books
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.recorder import Recorder, described
from ttmem.snapshots import Snapshot
from ttmem.web import lives
from ttmem.web.report import bundle

HERE = Path(__file__).parent
KINDS = {"DRAM": 0, "L1": 1, "L1_SMALL": 2, "TRACE": 3}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.ttmem"
    record(path)
    return path


def written(file: Path, *options: str) -> Path:
    page = file.with_suffix(".html")
    assert main(["report", str(file), "-o", str(page), *options]) == 0
    return page


def simulated(tmp_path: Path, name: str, *options: str) -> Path:
    file = tmp_path / f"{name}.ttmem"
    assert main(["simulate", name, "--rate", "0", "-o", str(file), *options]) == 0
    return file


def test_the_modules_that_draw_nothing_keep_their_word() -> None:
    done = ran([node(), "--test", str(HERE / "modules.test.mjs")])

    assert done.returncode == 0, done.stdout


def sums(snapshot: Snapshot, device: str) -> dict[str, Counter[str]]:
    """Held bytes by call site, for each chart."""
    found: dict[str, Counter[str]] = {"dram": Counter(), "l1_used": Counter(), "trace": Counter()}
    charts = {"DRAM": "dram", "L1": "l1_used", "L1_SMALL": "l1_used", "TRACE": "trace"}
    for buffer in snapshot.buffers or ():
        if buffer.device == device and buffer.kind in charts:
            found[charts[buffer.kind]][buffer.site or "no call site is known"] += buffer.held
    return found


def compare(file: Path, page: Path, tmp_path: Path, count: int) -> list[Any]:
    """Every instant that the page knows exactly has the figures of `ttmem ps FILE --at '#POSITION'`, to the byte."""
    chance = Random(5)
    with Recording(str(file)) as recording:
        info = recording.info()
        document, _ = ask(page, [], tmp_path)
        devices = [device["unique_id"] for device in document["devices"]]
        positions = sorted({chance.randrange(info.first, info.end + 1) for _ in range(count)})
        peaks = [(devices.index(peak["device"]), peak["position"]) for peak in document["peaks"]]
        wanted = [(chance.randrange(len(devices)), at) for at in positions] + peaks
        _, answers = ask(page, wanted, tmp_path)
        for (number, asked), answer in zip(wanted, answers, strict=True):
            position = asked
            if answer["totals"] and not answer["complete"]:
                position = answer["totals"]["position"]  # what the page shows instead
            now = recording.at(f"#{position}", ["buffers"])
            device = next(
                (device for device in now.devices if device.unique_id == devices[number]), None
            )
            if device is None:  # it is not declared yet
                assert answer["totals"] is None or not answer["totals"]["dram"]
                continue
            amounts = device.memory.amounts
            if not answer["exact"] or answer["totals"] is None:
                assert answer["totals"] or not any(amounts)
                continue
            expected = {**amounts._asdict(), "l1_used": device.l1_used}
            assert {name: answer["totals"][name] for name in expected} == expected
            for chart, counted in sums(now, device.unique_id).items():
                shown = {site["name"]: site["bytes"] for site in answer["sites"][chart]}
                cb = shown.pop("circular buffers (shared)", 0)
                assert (shown, cb) == (counted, amounts.cb if chart == "l1_used" else 0)
            if answer["complete"]:
                listed = [
                    [
                        KINDS[buffer.kind],
                        -1 if buffer.address is None else buffer.address,
                        buffer.held,
                    ]
                    for buffer in now.buffers or ()
                    if buffer.device == device.unique_id and buffer.kind in KINDS
                ]
                assert sorted(answer["buffers"]) == sorted(listed)
        for peak, answer in zip(document["peaks"], answers[len(positions) :], strict=True):
            assert answer["totals"][peak["memory"]] == peak["bytes"]
            assert answer["complete"] or peak["memory"] == "cb"
    return answers


def test_figures_are_those_of_ps_at_any_instant(file: Path, tmp_path: Path) -> None:
    compare(file, written(file), tmp_path, 60)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "serving", "transformer", "clash"])
def test_figures_of_workloads_are_those_of_ps(name: str, tmp_path: Path) -> None:
    file = simulated(tmp_path, name, "--steps", "12")

    answers = compare(file, written(file), tmp_path, 25)

    on_cores = [answer for answer in answers if answer["onCores"] is not None and answer["totals"]]
    assert on_cores
    for answer in on_cores:
        assert answer["onCores"] == answer["totals"]["cb"]


@pytest.mark.slow
def test_a_run_that_is_too_long_keeps_peaks_and_exact_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "PAGE_LIMITS", lives.PageLimits(buffers=120, steps=600, samples=80))
    file = simulated(tmp_path, "serving", "--steps", "40")
    page = written(file)

    answers = compare(file, page, tmp_path, 200)

    document, _ = ask(page, [], tmp_path)
    assert document["buffers_listed"] < document["buffers"]
    assert not all(answer["complete"] for answer in answers)


def test_the_page_is_private_and_replaces_nothing_unasked(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = written(file)

    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert main(["report", str(file), "-o", str(page)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["report", str(file), "-o", str(page), "--overwrite"]) == 0
    assert [path.name for path in page.parent.iterdir() if "part" in path.name] == []


def test_the_page_is_named_after_the_recording(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["report", str(file)]) == 0
    assert (tmp_path / "run.html").exists()


@pytest.mark.parametrize("content", [None, b"", b"no recording\n"])
def test_what_is_no_recording_gets_one_sentence(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.ttmem"
    if content is not None:
        file.write_bytes(content)

    assert main(["report", str(file)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_page_that_cannot_be_written_says_so(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(file), "-o", "/nonexistent/page.html"]) == 1
    assert "/nonexistent/page.html cannot be written" in capsys.readouterr().err


def test_the_page_loads_nothing_and_its_policy_forbids_it(file: Path) -> None:
    text = written(file).read_text("utf-8")

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert re.findall(r"<(?:link|img|iframe|script src)", text) == []
    assert re.findall(r"https?://", text.replace(payload_of(text), "")) == []


def test_no_module_turns_text_into_html() -> None:
    static = Path(lives.__file__).parent / "static"
    for module in static.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(",
            module.read_text(),
        )


def test_modules_keep_their_scopes_in_one_script(tmp_path: Path) -> None:
    modules = {
        "a.js": "const secret = 1;\nexport function one() {\n  return secret;\n}\n",
        "b.js": 'import { one } from "./a.js";\nconst secret = 2;\nexport const sum = one() + secret;\n',
    }
    script = bundle(modules) + "\nconsole.log(module_b.sum);"

    done = ran([node(), "-e", script], check=True)

    assert done.stdout == "3\n"


def test_a_report_of_an_empty_recording_says_so(tmp_path: Path) -> None:
    file = tmp_path / "empty.ttmem"
    Recorder(Books(), FileSink(str(file)), described("test")).close()

    document, _ = ask(written(file), [], tmp_path)

    assert document["devices"] == []
    assert document["leaks"]["refused"].startswith("No verdict: empty.ttmem has no")


def test_the_parts_of_a_peak_add_up_to_it(tmp_path: Path) -> None:
    file = tmp_path / "run.ttmem"
    record(file)

    document, _ = ask(written(file), [], tmp_path)

    rows = document["parts"]["rows"]
    assert {row["memory"] for row in rows} >= {"DRAM", "L1 used"}
    for row in rows:
        found = [row[part] or 0 for part in ("circular", "intermediate", "persistent", "stale")]
        assert sum(found) == row["bytes"]


def test_with_losses_there_is_no_verdict(tmp_path: Path) -> None:
    file = tmp_path / "lossy.ttmem"
    with Run(file, watched=False) as run:
        run.alloc(1 << 20)
        run.event(Event(Op.FREE, id=99))

    document, _ = ask(written(file), [], tmp_path)

    assert document["losses"] == ["unknown free (1 time)"]
    assert document["leaks"]["refused"].startswith("No verdict: lossy.ttmem is not complete")
    assert document["parts"]["refused"].startswith("Not split: lossy.ttmem is not complete")
    assert document["sizes"]["refused"].startswith("No advice: lossy.ttmem is not complete")


@pytest.mark.slow
def test_the_demo_writes_an_example_and_replaces_nothing(tmp_path: Path) -> None:
    page = tmp_path / "example.html"

    assert main(["demo", "--report", str(page)]) == 0
    document, _ = ask(page, [], tmp_path)
    assert (document["name"], document["losses"]) == ("demo.ttmem", [])
    assert main(["demo", "--report", str(page)]) == 2


@pytest.mark.slow
def test_thirty_two_chips_fit(tmp_path: Path) -> None:
    file = simulated(tmp_path, "galaxy", "--steps", "3")
    page = written(file)

    document, _ = ask(page, [], tmp_path)

    assert len(document["devices"]) == 32
    assert page.stat().st_size < 3 << 20


def test_what_only_counters_tell_has_a_sample_each_second(tmp_path: Path) -> None:
    file = tmp_path / "counters.ttmem"
    books = Books()
    recorder = Recorder(books, FileSink(str(file)), described("test"))
    now = time.time_ns()
    for second in range(5):
        now += 1_000_000_000
        held = Amounts(dram=1 << (20 + second), l1=4096)
        books.sample([region("77", slot(os.getpid(), held))], (), now)
        books.tick(now)
        recorder.tick(now)
    recorder.close()

    document, answers = ask(written(file), [(0, 0)], tmp_path)

    peaks = {peak["memory"]: peak["bytes"] for peak in document["peaks"]}
    assert peaks == {"dram": 16 << 20, "l1": 4096, "l1_used": 4096}
    assert document["sums_only"] == [os.getpid()]
    assert answers[0]["totals"]["position"] is None
