"""Programs that are for some chips of a mesh only: each chip has what the descriptor gives it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.ttnn.bench.machine import Machine
from tests.ttnn.bench.session import Session
from tests.ttnn.probed import Machines, start
from tests.ttnn.test_probe_picture import shown

BOARDS = ("p150x4", "t3k")
STEP = 40_960
PREPARE = """
def tensor(device, rows, columns, config=ttnn.DRAM_MEMORY_CONFIG):
    shape = ttnn.Shape([1, 1, rows, columns])
    return ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, config)

def program(size, cores):
    form = ttnn.CBFormatDescriptor(buffer_index=0, data_format=ttnn.bfloat16, page_size=2048)
    buffer = ttnn.CBDescriptor(total_size=size, core_ranges=cores, format_descriptors=[form])
    kernel = ttnn.KernelDescriptor(
        kernel_source="void kernel_main() {}",
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
        core_ranges=cores,
        config=ttnn.ReaderConfigDescriptor(),
    )
    return ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=[buffer])

def generic(device, sizes, corner=(0, 0)):
    cores = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(*corner))
    all = ttnn.MeshProgramDescriptor()
    for (row, column, last_row, last_column), size in sizes:
        first, last = ttnn.MeshCoordinate(row, column), ttnn.MeshCoordinate(last_row, last_column)
        all[ttnn.MeshCoordinateRange(first, last)] = program(size, ttnn.CoreRangeSet([cores]))
    ttnn.generic_op([tensor(device, 32, 32), tensor(device, 32, 32)], all)

def chips(device):
    rows, columns = tuple(device.shape)
    at = lambda row, column: device.get_device_id(ttnn.MeshCoordinate(row, column))
    return [[at(row, column) for column in range(columns)] for row in range(rows)]
"""
COLLECTIVES = {
    "all_gather": "ttnn.all_gather(a, dim=3, cluster_axis=1, topology=ttnn.Topology.Linear)",
    "reduce_scatter": "ttnn.reduce_scatter(a, dim=3, cluster_axis=1, topology=ttnn.Topology.Linear)",
    "all_reduce": "ttnn.all_reduce(a, cluster_axis=1, topology=ttnn.Topology.Linear)",
}


def opened(there: Machine, *, fabric: bool = False, events: int = 1 << 16) -> Session:
    session = start(there, opened=False, TTMEM_EVENTS=str(events))
    if fabric:
        session.run("ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)\nNone")
    how = f"ttnn.MeshShape({there.board.rows}, {there.board.columns})"
    if there.board.name == "t3k":
        how += ", dispatch_core_config=ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER)"
    session.run(f"device = ttnn.open_mesh_device({how})\nNone")
    session.run(PREPARE)
    return session


def places(session: Session, mesh: str = "device") -> dict[tuple[int, int], int]:
    """The chip at each coordinate, in the runtime's words."""
    grid = session.run(f"chips({mesh})")
    return {
        (row, column): chip for row, line in enumerate(grid) for column, chip in enumerate(line)
    }


Figures = dict[str, Any]


def by_chip(there: Machine) -> dict[int, Figures]:
    """What `ttmem ps` shows of the programs of each chip."""
    document = shown(there, "ps", "--detail", "programs")
    found = {}
    for device in document["devices"]:
        cb, code = device["memory"]["cb"], device["kernels"]
        mine = {
            name: [row for row in document[name] if row["device"] == device["unique_id"]]
            for name in ("programs", "kernels")
        }
        own = [row for row in mine["kernels"] if row["type"] == "application"]
        found[device["logical_id"]] = {
            "cb": (cb["resident"], cb["cached"], cb["demand"]),
            "l1_used": device["l1_used"] - device["memory"]["l1"]["held"],
            "programs": sum(row["name"] is not None for row in mine["programs"]),
            "kernels": len(own),
            "dispatches": code["dispatches"],
            "hits": code["cache_hits"],
            "misses": code["cache_misses"],
            "entries": code["cache_entries"],
        }
    return found


def of_one_program(size: int, dispatches: int = 1) -> Figures:
    """One kernel and one circular buffer, on one core."""
    return {
        "cb": (size, size, size),
        "l1_used": size,
        "programs": 1,
        "kernels": 1,
        "dispatches": dispatches,
        "hits": dispatches - 1,
        "misses": 1,
        "entries": 1,
    }


NOTHING: Figures = {
    "cb": (0, 0, 0),
    "l1_used": 0,
    "programs": 0,
    "kernels": 0,
    "dispatches": 0,
    "hits": None,
    "misses": None,
    "entries": 0,
}


@pytest.mark.parametrize("board", BOARDS)
def test_each_chip_has_the_program_that_the_descriptor_gives_it(
    machine: Machines, board: str
) -> None:
    there = machine(board)
    session = opened(there)
    where = places(session)
    sizes = {place: STEP * number for number, place in enumerate(where, 1)}

    descriptor = [((*place, *place), size) for place, size in sizes.items()]
    session.run("for _ in range(3): generic(device, descriptor)", descriptor=descriptor)

    assert by_chip(there) == {
        where[place]: of_one_program(size, dispatches=3) for place, size in sizes.items()
    }
    assert session.run("device.num_program_cache_entries()") == 1


@pytest.mark.parametrize("late", [False, True])
def test_a_program_for_a_part_of_the_mesh_is_on_no_other_chip(
    machine: Machines, late: bool
) -> None:
    there = machine("t3k")
    session = opened(there, events=64 if late else 4096)
    where = places(session)

    descriptor = [((0, 0, 1, 0), STEP), ((0, 1, 1, 3), 2 * STEP)]  # the first column, the others
    session.run("generic(device, descriptor)", descriptor=descriptor)
    session.run("for _ in range(100): tensor(device, 32, 32)")

    def wanted(size: int) -> Figures:
        one = of_one_program(size)
        # Who ran last on which core is what a late reader has not seen.
        return one | {"cb": (None, size, size)} if late else one

    assert by_chip(there) == {
        chip: wanted(2 * STEP if column else STEP) for (_, column), chip in where.items()
    }


def test_coordinates_are_those_of_the_submesh_that_the_program_runs_on(machine: Machines) -> None:
    there = machine("t3k")
    session = opened(there)
    session.run("parts = device.create_submeshes(ttnn.MeshShape(2, 2))\nNone")
    where = places(session, "parts[1]")

    descriptor = [((0, 0, 0, 1), STEP), ((1, 0, 1, 0), 2 * STEP), ((1, 1, 1, 1), 3 * STEP)]
    session.run("generic(parts[1], descriptor)", descriptor=descriptor)

    sizes = {(0, 0): STEP, (0, 1): STEP, (1, 0): 2 * STEP, (1, 1): 3 * STEP}
    elsewhere = dict.fromkeys(range(there.board.chips), NOTHING)
    assert by_chip(there) == elsewhere | {
        where[place]: of_one_program(size) for place, size in sizes.items()
    }


def cores_of(text: str) -> int:
    """'{[0-0 - 3-0], [5-1 - 6-1]}' are six."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    corners = zip(*(iter(numbers),) * 4, strict=True)
    return sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in corners)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_has_one_program_per_chip_with_the_buffers_that_a_capture_lists(
    machine: Machines, board: str, name: str
) -> None:
    there = machine(board)
    session = opened(there, fabric=True)
    session.run("a = tensor(device, 32, 1024)\nNone")
    # All programs of all chips in one list.
    captured = session.core_buffers(COLLECTIVES[name])
    total = sum(buffer["size"] * cores_of(buffer["cores"]) for buffer in captured)

    session.run(f"kept = [{COLLECTIVES[name]} for _ in range(2)]\nNone")

    workloads = session.run("device.num_program_cache_entries()")
    seen = by_chip(there)
    assert total > 0
    assert len(seen) == there.board.chips
    for chip in seen.values():
        assert chip["cb"][2] == total // there.board.chips
        assert chip["l1_used"] == chip["cb"][1] <= chip["cb"][2]
        assert (chip["programs"], chip["entries"], chip["misses"]) == (workloads,) * 3
        assert (chip["dispatches"], chip["hits"]) == (2 * workloads, workloads)


def test_what_the_runtime_rejects_is_in_no_peak_and_no_demand(machine: Machines) -> None:
    there = machine("p150")
    session = opened(there)
    session.run(
        "full = tensor(device, 32 * 110 * 20, 1024, ttnn.L1_MEMORY_CONFIG)\n"
        "wide = tensor(device, 32, 32 * 1024)\n"
        "refused = 0\n"
        "for work in (\n"
        "    lambda: ttnn.softmax(wide, dim=-1),\n"
        "    lambda: generic(device, [((0, 0, 0, 0), 1 << 20)], corner=(10, 9)),\n"
        "):\n"
        "    try: work()\n"
        "    except RuntimeError: refused += 1\n"
    )

    assert session.run("[refused, device.num_program_cache_entries()]") == [2, 0]
    (device,) = shown(there, "ps")["devices"]
    held = device["memory"]["l1"]["held"]
    assert device["memory"]["cb"]["demand"] == device["kernels"]["cache_entries"] == 0
    assert device["l1_peak"] == device["l1_used"] == held < device["l1_capacity"]
    assert {anomaly["kind"] for anomaly in device["anomalies"]} == {"allocation_failed"}
