"""Runs scripts on both sides, step by step, and reads meanwhile what ttmem says of the real one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

from tests.ttnn.bench.machine import SHARED_MEMORY, Machine
from tests.ttnn.bench.session import Session
from tests.ttnn.scripts.on_model import ModelRunner
from tests.ttnn.scripts.steps import Answer, Script, State, Step, as_plain
from ttmem.feeds import LocalFeed

PREPARE = "from tests.ttnn.scripts.in_child import Runner\nrunner = Runner(ttnn)"


@dataclass(frozen=True, slots=True)
class Seen:
    """After one step: both states; what ttmem shows for each device, and what it should show.

    `asked` has no CB where the runtime itself has not published it since the last change.
    """

    script: Script
    step: Step | None  # None: the device was opened
    runtime: State
    model: State
    asked: Figures
    shown: dict[int, Figures]

    @property
    def where(self) -> str:
        """Enough to run it again."""
        return f"script {self.script.seed}, {self.script.sizes}, {self.step or 'opened'}"


def run_scripts(machine: Machine, scripts: Iterable[Script]) -> Iterator[Seen]:
    """All in one process, because loading ttnn takes seconds, and opening a device milliseconds."""
    session = machine.session(opened=False)
    session.run(PREPARE)
    feed = LocalFeed(str(SHARED_MEMORY))
    for script in scripts:
        yield from _run(machine, session, feed, script)
    session.run("runner.close()")


def _run(machine: Machine, session: Session, feed: LocalFeed, script: Script) -> Iterator[Seen]:
    shape = machine.board.rows, machine.board.columns
    model = ModelRunner(machine.board, script.sizes)
    session.send(
        "runner.open(shape, sizes, steps)",
        shape=shape,
        sizes=asdict(script.sizes),
        steps=[as_plain(step) for step in script.steps],
    )
    for step in (None, *script.steps):
        if step is not None:
            session.send("runner.run(step)", step=as_plain(step))
        answer = cast(Answer, session.receive())
        state = model.state() if step is None else model.run(step, answer["wanted"])
        if answer["state"]["circular"] is None:
            state["circular"] = None
        asked: Figures = {**model.requested()}
        if answer["cb_is_fresh"]:
            asked["cb"] = model.circular_buffer_bytes()
        seen = shown(feed, machine, session.pid)
        told = {chip: {kind: figures[kind] for kind in asked} for chip, figures in seen.items()}
        yield Seen(script, step, answer["state"], state, asked, told)


# -- What ttmem shows: of one process, device by device; and of all, by its command line


Figures: TypeAlias = dict[str, int | None]

NOTHING: Figures = dict.fromkeys(("dram", "l1", "l1_small", "trace", "cb"), 0)


def shown(feed: LocalFeed, machine: Machine, pid: int) -> dict[int, Figures]:
    """By unique id of the device; a process that is not listed there holds nothing."""
    found = dict.fromkeys(machine.unique_ids, NOTHING)
    for process in feed.read().processes:
        if process.pid == pid:
            for unique, held in process.devices.items():
                found[int(unique)] = {kind: getattr(held, kind) for kind in NOTHING}
    return found


def printed() -> dict[str, Any]:
    """`ttmem ps --json`, as a program would read it."""
    command = (sys.executable, "-m", "ttmem", "ps", "--json", "--shm", str(SHARED_MEMORY))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))
