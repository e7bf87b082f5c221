from __future__ import annotations

from dataclasses import replace

from tests.views.builders import MIB, circular, device, snapshot
from ttmem.snapshots import Snapshot
from ttmem.views.notes import hint_notes


def hint(now: Snapshot, earlier: Snapshot | None = None) -> list[str]:
    return [note.text for note in hint_notes(now, earlier)]


def picture(cb: int, l1: int = 0, seconds: int = 0) -> Snapshot:
    made = snapshot([device(0, l1=l1, cb=circular(cb))])
    return replace(made, time_ns=made.time_ns + seconds * 1_000_000_000)


def test_circular_buffers_that_are_most_of_l1_get_the_advice() -> None:
    assert hint(picture(cb=int(158.5 * MIB), l1=MIB)) == [
        "circular buffers of cached programs hold 158.5 MiB of L1 on device 0; fewer distinct"
        " shapes, or clearing the program cache, frees them (docs/circular-buffers.md)"
    ]


def test_a_plain_sum_that_l1_cannot_have_is_explained() -> None:
    crowded = picture(cb=10 * MIB)
    (device,) = crowded.devices
    cb = replace(device.memory.cb, demand=2000 * MIB)
    device = replace(device, memory=replace(device.memory, cb=cb))

    assert hint(replace(crowded, devices=(device,))) == [
        "the circular buffers of all cached programs on device 0 add up to 2.0 GiB, more than L1"
        " has; they share addresses and occupy 10.0 MiB (docs/circular-buffers.md)"
    ]


def test_half_of_l1_is_not_yet_most_of_it() -> None:
    assert hint(picture(cb=2 * MIB, l1=2 * MIB)) == []


def test_most_of_a_nearly_empty_l1_is_not_worth_a_hint() -> None:
    assert hint(picture(cb=21 * MIB)) == []
    assert len(hint(picture(cb=22 * MIB))) == 1  # a quarter of 85.0 MiB


def test_growth_of_a_little_is_not_worth_a_hint() -> None:
    assert hint(picture(cb=6 * MIB, seconds=10), picture(cb=2 * MIB)) == []


def test_where_the_capacity_is_unknown_most_of_l1_is_enough() -> None:
    unknown = snapshot([device(0, cb=circular(6 * MIB), l1_capacity=None)])
    assert len(hint(unknown)) == 1


def test_where_only_the_default_capacity_is_known_it_decides() -> None:
    def opened_somehow(cb: int) -> Snapshot:
        chip = device(0, cb=circular(cb), l1_capacity=None)
        return snapshot([replace(chip, l1_capacity_default=85 * MIB)])

    assert hint(opened_somehow(21 * MIB)) == []
    assert len(hint(opened_somehow(22 * MIB))) == 1


def test_a_little_is_not_worth_a_hint() -> None:
    assert hint(picture(cb=4096)) == []


def test_growth_since_the_earlier_picture_means_new_shapes() -> None:
    (said,) = hint(picture(cb=30 * MIB, l1=60 * MIB, seconds=10), picture(cb=18 * MIB))
    assert said.startswith(
        "circular buffers grew by 12.0 MiB in 10 s on device 0: programs for new"
    )


def test_no_growth_means_that_all_shapes_are_cached() -> None:
    (said,) = hint(picture(cb=30 * MIB, seconds=10), picture(cb=30 * MIB))
    assert "and stay flat: all shapes are cached" in said


def test_a_plain_sum_is_called_one() -> None:
    by_demand = snapshot([device(0, cb=circular(None, 30 * MIB))])
    (said,) = hint(by_demand)
    assert "(a plain sum: shared addresses are counted more than once)" in said


def test_a_device_that_is_new_has_not_grown() -> None:
    assert hint(picture(cb=30 * MIB, l1=60 * MIB), snapshot()) == []
