"""Capacities of devices that only the counters tell of: those of the runtime, or unknown with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.ttnn.bench.boards import USUAL_SIZES, Sizes
from tests.ttnn.bench.machine import SHARED_MEMORY, Machine
from tests.ttnn.bench.session import Session
from tests.ttnn.scripts.running import printed
from ttmem.feeds import LocalFeed
from ttmem.probe import environment

CASES = [
    ("n150", False, USUAL_SIZES, 89_171_968, 89_171_968),
    ("t3k", True, USUAL_SIZES, 78_025_472, 89_171_968),
    ("p150", False, USUAL_SIZES, 160_723_200, 160_723_200),
    ("p150", False, Sizes(worker_l1_size=1_000_000), 110_000_000, 160_723_200),
]


def told(there: Machine) -> list[dict[str, Any]]:
    """What `ttmem ps --json` says of each chip of the machine."""
    chips = set(map(str, there.unique_ids))
    return [device for device in printed()["devices"] if device["unique_id"] in chips]


def l1_of(session: Session) -> int:
    """What the runtime itself calls the total, with L1_SMALL."""
    kinds = session.views()["kinds"]
    return int(
        sum(
            kinds[kind]["num_banks"] * kinds[kind]["total_bytes_per_bank"]
            for kind in ("l1", "l1_small")
        )
    )


@pytest.mark.parametrize(("board", "worker_dispatch", "sizes", "real", "default"), CASES)
def test_no_capacity_is_another_than_that_of_the_runtime(
    board: str,
    worker_dispatch: bool,
    sizes: Sizes,
    real: int,
    default: int,
    machine: Callable[[str], Machine],
) -> None:
    there = machine(board)
    session = there.session(sizes, worker_dispatch=worker_dispatch)
    dram = session.views()["kinds"]["dram"]
    assert l1_of(session) == real
    session.run("a = ttnn.zeros((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)")  # takes a slot

    devices = told(there)

    assert len(devices) == there.board.chips
    for device in devices:
        assert device["l1_capacity"] in (None, real)
        assert device["l1_total"] is None
        assert device["grid"] is None
        assert device["kernels"]["ring"]["capacity"] is None
        assert device["l1_capacity_default"] == default
        assert (
            device["memory"]["dram"]["capacity"] == dram["num_banks"] * dram["total_bytes_per_bank"]
        )
        capacity = device["provenance"]["capacity"]
        assert capacity["source"] == "cluster descriptor"
        assert "worker_l1_size, which are not published" in capacity["misses"]
        assert (
            f"with the defaults of ttnn 0.81.1 it is {default / (1 << 20):.1f} MiB"
            in capacity["misses"]
        )
        assert device["anomalies"] == []


def test_the_ring_of_a_watched_process_is_as_long_as_its_worker_l1_size_leaves_it(
    machine: Callable[[str], Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = machine("p150")
    monkeypatch.setenv("TTMEM_SHM", str(SHARED_MEMORY))
    monkeypatch.setenv("TTMEM_REGION_DIR", str(there.folder))
    watched = environment({"LD_PRELOAD": os.environ.get("LD_PRELOAD", "")})
    sizes = Sizes(worker_l1_size=1_000_000)
    session = there.session(sizes, variables=watched | {"TTMEM_REGION_DIR": str(there.folder)})
    session.run("a = ttnn.zeros((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device)")

    with closing(LocalFeed()) as feed:
        picture = feed.read()
    [device] = [device for device in picture.devices if int(device.unique_id) in there.unique_ids]

    spec = there.board.spec(sizes)
    assert (device.l1_capacity, device.l1_total) == (spec.l1_capacity, spec.l1_total)
    assert device.l1_capacity_default is None
    assert device.kernels.ring.capacity == spec.ring_capacity == 58_495_360
    assert device.provenance["capacity"].source == "probe"
