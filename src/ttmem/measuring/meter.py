"""The pytest plugin at run time: measures test bodies, compares them with limits, and reports.

An xdist worker measures its own tests. What the controller prints travels in report properties, which junit files also
show.
"""

from __future__ import annotations

import gc
import os
import re
from collections import Counter
from collections.abc import Generator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from ttmem.analysis.composition import Holder, grouped
from ttmem.analysis.failures import explain
from ttmem.analysis.recorded_failures import recorded_failures
from ttmem.errors import BadInput, TtmemError
from ttmem.measuring.measured import (
    LEAKS,
    PEAKS,
    Baseline,
    Budget,
    Identity,
    Measured,
    Peak,
    parse_percent,
)
from ttmem.measuring.watch import Measurement, SelfRecorder
from ttmem.notebook import Rows
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.memory import ChunkMemory, MemorySource
from ttmem.sizes import human, several
from ttmem.text import clean
from ttmem.views.analysis.failures import render_failure

NAME = "ttmem"
TOP = 8  # call sites in a report
WIDTH = 100
_NOT_COMPARED, _WHY, _BOARD = "ttmem.not_compared", "ttmem.why", "ttmem.board"


class Meter:
    """Registered when an option or a marker asks for it."""

    def __init__(self, config: pytest.Config) -> None:
        options = config.option
        self._table = bool(options.ttmem)
        self._loop = 1 if options.ttmem_loop is None else int(options.ttmem_loop)
        self._record: str | None = options.ttmem_record
        self._update = bool(options.ttmem_update_baseline)
        self._worker = hasattr(config, "workerinput")
        try:
            self._default = (
                Budget.parse(options.ttmem_default) if options.ttmem_default else Budget()
            )
            self._share = parse_percent(options.ttmem_fail_on_increase or "0%")
            self._baseline = self._read_baseline(options.ttmem_baseline)
            if self._loop < 1:
                raise BadInput("--ttmem-loop must be 1 or more")
            if self._record:
                os.makedirs(self._record, exist_ok=True)
        except (TtmemError, OSError) as problem:
            raise pytest.UsageError(f"ttmem: {problem}") from None
        if os.environ.get("TTMEM_PYTEST"):  # what tests start counts towards this process
            os.environ["TTMEM_LAUNCHER"] = str(os.getpid())
        self._self_recorder: SelfRecorder | None = None
        self._rows: dict[str, dict[str, Any]] = {}  # by test
        self._passed: set[str] = set()

    def _read_baseline(self, file: str | None) -> Baseline | None:
        if file is None:
            if self._update:
                raise BadInput("--ttmem-update-baseline needs --ttmem-baseline FILE")
            return None
        return Baseline.read(file, may_be_missing=self._update)

    # -- in the process that runs the test -----------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            limits = self._limits(item)
        except BadInput as problem:
            said = f"@pytest.mark.ttmem: {problem}"
            raise pytest.fail.Exception(said, pytrace=False) from None
        body = Measurement()
        before: frozenset[Identity] = frozenset()
        gc.collect()
        body.begin(self._recorder, f"pytest {item.nodeid}")
        try:
            result = yield
            if self._loop > 1:  # what the first run leaves is warm-up
                gc.collect()
                before = body.alive()
            for _ in range(self._loop - 1):
                item.runtest()
        except BaseException:
            body.end(collect=False)
            self._tell(item, body, None, before)
            raise
        body.end()
        problems = self._tell(item, body, limits, before)
        if problems:
            pytest.fail("ttmem: " + "\n       ".join(problems), pytrace=False)
        return result

    def _limits(self, item: pytest.Item) -> Budget:
        found = self._default
        for marker in reversed(list(item.iter_markers(NAME))):
            if marker.args:
                raise BadInput('limits have names, such as l1="20 MiB"')
            found = found.with_own(Budget.of(marker.kwargs))
        return found

    def _recorder(self) -> SelfRecorder:
        if self._self_recorder is None:
            self._self_recorder = SelfRecorder(children=True)
        return self._self_recorder

    def _tell(
        self,
        item: pytest.Item,
        body: Measurement,
        limits: Budget | None,
        before: frozenset[Identity],
    ) -> list[str]:
        """Adds properties and sections to the report; returns what is wrong.

        `limits` None: the test has failed anyway, so that leaks are not determined. `before`: what is no leak.
        """
        tell = item.user_properties.append
        problems: list[str] = []
        if body.result is None:
            tell((_WHY, body.why))
            if limits and limits.most:
                names = ", ".join(limits.most)
                problems.append(f"{names} cannot be checked: {body.why}")
        else:
            peak, board = body.result.peak, _board(body.result)
            leaked = None if limits is None else body.result.leaked_since(before)
            lost = None if leaked is None else sum(holder.bytes for holder in leaked)
            for name in PEAKS:
                tell((f"ttmem.{name}", getattr(peak, name)))
            tell(("ttmem.leaks", lost))
            tell((_BOARD, board))
            if limits is not None:
                problems += limits.exceeded(peak, lost)
                problems += self._increased(item, peak, board)
            if problems or limits is None:
                _add_sections(item, body.result, leaked, problems)
                for failure in recorded_failures(Recording(MemorySource(body.memory))):
                    text = render_failure(
                        failure.pid or 0, explain(failure), width=WIDTH, color=False
                    )
                    item.add_report_section("call", NAME, text + "\n")
        if (problems or limits is None) and self._record and body.memory.end:
            item.add_report_section("call", NAME, f"recording: {self._save(item, body.memory)}\n")
        return problems

    def _increased(self, item: pytest.Item, peak: Peak, board: str) -> list[str]:
        if self._baseline is None or self._update:
            return []
        try:
            found = list(self._baseline.increased(item.nodeid, peak, board, self._share))
        except BadInput as problem:
            item.user_properties.append((_NOT_COMPARED, str(problem)))
            return []
        now, then = _ttnn_version(), self._baseline.ttnn
        if found and now != then:
            found.append(f"(the baseline is of ttnn {then}, this is {now})")
        return found

    def _save(self, item: pytest.Item, memory: ChunkMemory) -> str:
        name = re.sub(r"[^\w.\[\]-]+", "_", item.nodeid)[-200:]
        path = os.path.join(self._record or "", f"{name}.ttmem")
        try:
            sink = FileSink(path, overwrite=True)
            sink.append(memory.read(0, memory.end))
            sink.close()
        except (TtmemError, OSError) as problem:
            return f"not written: {problem}"
        return path

    # -- in the process that reports -----------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            found = {
                key: value for key, value in report.user_properties if key.startswith("ttmem.")
            }
            if found:
                self._rows[report.nodeid] = found
            if report.passed:
                self._passed.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._worker:
            return
        if self._baseline is not None and self._update:
            for test, row in self._rows.items():
                if _WHY not in row and test in self._passed:
                    figures = {name: row.get(f"ttmem.{name}") for name in PEAKS}
                    self._baseline.tests[test] = {"board": row.get(_BOARD), **figures}
            self._baseline.write(_ttnn_version())
        elif (
            self._baseline is not None
            and session.exitstatus == pytest.ExitCode.OK
            and self._not_compared()
        ):
            # Nothing was measured, so nothing was verified.
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _not_compared(self) -> dict[str, str]:
        found = {test: row.get(_NOT_COMPARED) or row.get(_WHY) for test, row in self._rows.items()}
        return {test: why for test, why in found.items() if why}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._worker:
            return
        if self._table:
            terminalreporter.section("memory of devices, at the peak of each test")
            for line in _table(self._rows):
                terminalreporter.line(line)
        if self._baseline is None:
            return
        if self._update:
            count = several(len(self._baseline.tests), "test")
            terminalreporter.line(f"ttmem: {self._baseline.file} has the peaks of {count}")
        reasons: dict[str, list[str]] = {}
        for test, why in ({} if self._update else self._not_compared()).items():
            reasons.setdefault(why, []).append(test)
        for why, tests in reasons.items():
            first = (
                tests[0] if len(tests) == 1 else f"{several(len(tests), 'test')}, {tests[0]} first"
            )
            terminalreporter.line(f"ttmem: not compared: {first}: {why}", red=True)


def _board(result: Measured) -> str:
    """'1 x p150, 11x10': what makes figures comparable."""
    found: Counter[str] = Counter()
    for device in result.end.devices:
        grid = "x".join(map(str, device.grid)) if device.grid else "unknown grid"
        found[f"{device.board or device.arch}, {grid}"] += 1
    return "; ".join(f"{number} x {kind}" for kind, number in sorted(found.items())) or "no device"


def _add_sections(
    item: pytest.Item, result: Measured, leaked: Rows[Holder] | None, problems: list[str]
) -> None:
    exceeded = [name for name in PEAKS if any(one.startswith(f"{name}:") for one in problems)]
    shown = ["l1_used" if name == "l1_per_core" else name for name in exceeded or ["l1_used"]]
    for which in dict.fromkeys((*shown, "dram")):
        rows = grouped(result.at_peak(which), "op", "site", "phase")
        if rows:
            at = human(getattr(result.peak, which))
            text = "\n".join([f"alive at the peak of {which}, {at}:", *_lines(rows), ""])
            item.add_report_section("call", NAME, text)
    if leaked:
        item.add_report_section("call", NAME, "\n".join(["not freed:", *_lines(leaked), ""]))


def _lines(rows: list[Holder] | tuple[Holder, ...]) -> list[str]:
    sizes = [human(holder.bytes) for holder in rows[:TOP]]
    widest = max(map(len, sizes), default=0)
    lines = []
    for size, holder in zip(sizes, rows, strict=False):
        times = f"{holder.number:,} x " if holder.number > 1 else ""
        site = holder.field("site") or "no line of Python"
        who = (
            "circular buffers of cached programs"
            if holder.kind == "CB"
            else f"{holder.op or 'outside any op'}  {site}"
        )
        phase = f"  in {holder.phase}" if holder.phase else ""
        lines.append(clean(f"  {size:>{widest}}  {holder.kind:<8}  {times}{who}{phase}"))
    if len(rows) > TOP:
        lines.append(f"  and {len(rows) - TOP:,} more")
    return lines


def _table(rows: dict[str, dict[str, Any]]) -> list[str]:
    names = (*PEAKS, LEAKS)
    cells = [[name.upper() for name in names]]
    whys: list[str | None] = [None]
    for row in rows.values():
        cells.append(
            [
                "N/A" if (value := row.get(f"ttmem.{name}")) is None else human(value)
                for name in names
            ]
        )
        whys.append(row.get(_WHY))
    wide = [max(len(line[at]) for line in cells) for at in range(len(names))]
    lines = []
    for line, test, why in zip(cells, ("TEST", *rows), whys, strict=True):
        figures = "  ".join(f"{cell:>{width}}" for cell, width in zip(line, wide, strict=True))
        lines.append(clean(f"{figures}  {test}{f'  ({why})' if why else ''}"))
    return lines if rows else ["no test was run"]


def _ttnn_version() -> str | None:
    try:
        return version("ttnn")
    except PackageNotFoundError:
        return None
