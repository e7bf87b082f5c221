"""Questions to the live feed: users are served in turn, and answers are shared and kept within limits."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ttmem.events import Remark
from ttmem.fast_dataclasses import replace
from ttmem.feeds import idle_host
from ttmem.feeds.local_feed import LocalFeed
from ttmem.snapshots import Buffer, Process, Question, Snapshot

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
from starlette.requests import Request

from ttmem.web.http.fair_thread import MOST_OF_A_USER, Busy
from ttmem.web.http.live import MOST_KEPT, Live
from ttmem.web.http.questions import question

ALICE, BOB = 1001, 1002


class Told(LocalFeed):
    """Answers what a test wants."""

    def __init__(self, folder: Path, tell: Callable[[Question], Snapshot]) -> None:
        super().__init__(str(folder))
        self._tell = tell

    def answer(self, question: Question, remarks: Iterable[Remark] = ()) -> Snapshot:
        return self._tell(question)


def rows(limit: int) -> Question:
    return Question(("buffers",), None, limit)


def test_who_asks_many_questions_keeps_nobody_waiting(tmp_path: Path) -> None:
    served: list[Question] = []
    begun, go_on = threading.Event(), threading.Event()

    def tell(asked: Question) -> Snapshot:
        begun.set()
        go_on.wait()
        served.append(asked)
        return idle_host()

    async def ask(live: Live) -> list[Snapshot | BaseException]:
        asked = [asyncio.ensure_future(live.snapshot(rows(1), ALICE))]
        await asyncio.to_thread(begun.wait)
        asked += [asyncio.ensure_future(live.snapshot(rows(n), ALICE)) for n in range(2, 41)]
        # The other one asks the question that waits the longest.
        last = rows(MOST_OF_A_USER)
        asked += [
            asyncio.ensure_future(live.snapshot(last, BOB)),
            asyncio.ensure_future(live.snapshot(rows(40), BOB)),
        ]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    live = Live(Told(tmp_path, tell), 600.0)
    answers = asyncio.run(ask(live))
    live.close()

    assert rows(MOST_OF_A_USER) in served[:3]
    assert len(served) == len(set(served)) == MOST_OF_A_USER + 1  # answers are shared
    assert [type(answer) for answer in answers].count(Busy) == 40 - MOST_OF_A_USER
    assert Busy not in map(
        type, answers[40:]
    )  # of the other user, who asks what was refused before


def test_answers_that_are_kept_have_a_limited_number_of_rows(tmp_path: Path) -> None:
    def tell(asked: Question) -> Snapshot:
        return replace(idle_host(), buffers=(Buffer(1, None, "DRAM"),) * (asked.limit or 0))

    async def ask(live: Live, questions: Iterable[Question]) -> None:
        for each in questions:
            await live.snapshot(each, ALICE)

    def kept() -> int:
        gc.collect()
        found = (each for each in gc.get_objects() if isinstance(each, Snapshot))
        return sum(len(snapshot.buffers or ()) for snapshot in found)

    before = kept()
    recent, outdated = Live(Told(tmp_path, tell), 600.0), Live(Told(tmp_path, tell), 0.0)
    asyncio.run(ask(recent, map(rows, range(90_000, 90_020))))
    assert kept() - before < MOST_KEPT + 90_020
    recent.close()
    del recent

    asyncio.run(ask(outdated, map(rows, (10, 20, 30))))
    assert kept() - before == 30
    outdated.close()


@pytest.mark.parametrize(("uid", "most"), [(0, 100_000), (os.geteuid(), 100_000), (ALICE, 50_000)])
def test_others_than_root_get_as_many_rows_as_from_the_server(uid: int, most: int) -> None:
    def asked(query: bytes) -> Question:
        scope = {"type": "http", "query_string": query, "headers": [], "state": {"uid": uid}}
        return question(Request(scope)).question

    assert asked(b"detail=buffers").limit == most
    assert asked(b"detail=buffers&limit=100000").limit == most
    assert asked(b"detail=buffers&limit=7").limit == 7


class Costly(Told):
    """It takes a while to follow, even if nobody looks."""

    def __init__(self, folder: Path, source: str) -> None:
        process = Process(1, 2, "ann", None, True, (source,), False, {})
        super().__init__(folder, lambda _: replace(idle_host(), processes=(process,)))
        self.followed = 0

    def follow(self) -> None:
        self.followed += 1
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass


def test_while_nobody_looks_costly_counters_are_read_less_often_than_events(tmp_path: Path) -> None:
    counters, events = Costly(tmp_path, "shared memory v3"), Costly(tmp_path, "probe")

    async def follow() -> None:
        lives = [Live(feed, 0.1) for feed in (counters, events)]
        tasks = [asyncio.ensure_future(live.keep_past()) for live in lives]
        while events.followed < 4:
            await asyncio.sleep(0.05)
        for task, live in zip(tasks, lives, strict=True):
            task.cancel()
            live.close()

    asyncio.run(follow())

    assert counters.followed <= 2
