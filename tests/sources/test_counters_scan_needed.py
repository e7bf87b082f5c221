"""When the walk over /proc can wait, and when it cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.other_user import sleepers
from tests.sources.region_writer import Slot, Written
from ttmem.sources.counters.layout import decode
from ttmem.sources.counters.process_states import ProcessStates
from ttmem.sources.counters.source import needs_scan

NO_CARDS = "/nowhere/cards"


def puzzling(*regions: Written, cards: str = NO_CARDS, uid: int = os.geteuid()) -> bool:
    found = [(uid, decode(written.bytes(), written.number)) for written in regions]
    return needs_scan(found, ProcessStates(), cards)


def test_live_owners_under_their_own_names_explain_themselves() -> None:
    with sleepers(2) as owners:
        slots = [Slot(owner.pid, name=b"sleep") for owner in owners]
        assert not puzzling(Written(7, slots=slots, references=2), Written(8, references=0))


@pytest.mark.parametrize("change", ["dead", "name", "references", "cards", "user"])
def test_anything_else_needs_the_walk(change: str, tmp_path: Path) -> None:
    with sleepers(1) as (owner,):
        if change == "dead":
            owner.kill()
            owner.wait()
        name = b"python" if change == "name" else b"sleep"
        region = Written(
            7,
            slots=[Slot(owner.pid, name=name)],
            references=2 if change == "references" else 1,
        )
        cards = str(tmp_path) if change == "cards" else NO_CARDS
        if change == "cards" and os.path.isdir("/proc/driver/tenstorrent"):
            pytest.skip("the driver of this machine says who has a card open")
        uid = os.geteuid() + (change == "user")
        assert puzzling(region, cards=cards, uid=uid)
