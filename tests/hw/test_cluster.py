from __future__ import annotations

import re
from pathlib import Path

from ttmem.hw import Arch, device_spec
from ttmem.hw.descriptor import parse_cluster, read_cluster

DESCRIPTORS = Path(__file__).parents[1] / "data" / "cluster_descriptors"


def test_an_n150_without_ids_is_known_by_what_the_file_says_and_no_more() -> None:
    cluster = read_cluster(DESCRIPTORS / "n150.yaml")
    (chip,) = cluster.chips
    assert (chip.logical_id, chip.arch, chip.board_type) == (0, Arch.WORMHOLE, "n150")
    assert not chip.is_remote
    assert (chip.unique_id, chip.pci, chip.bus_id) == (None, None, None)


def test_the_second_chip_of_an_n300_is_remote() -> None:
    near, far = read_cluster(DESCRIPTORS / "n300.yaml").chips
    assert (near.is_remote, near.unique_id) == (False, 1099511640077)
    assert (far.is_remote, far.unique_id) == (True, 1099511640078)


def test_a_bus_number_alone_gives_no_pci_address() -> None:
    near = read_cluster(DESCRIPTORS / "n300.yaml").chips[0]
    assert (near.bus_id, near.pci) == (0x0A, None)


def test_pci_addresses_are_text_even_where_yaml_sees_numbers_in_base_60() -> None:
    cluster = read_cluster(DESCRIPTORS / "p150x4.yaml")
    addresses = [chip.pci for chip in cluster.chips]
    assert addresses == ["0000:21:00.0", "0000:22:00.0", "0000:a1:00.0", "0001:a2:00.0"]


def test_chips_are_in_the_order_of_their_logical_ids() -> None:
    cluster = read_cluster(DESCRIPTORS / "p150x4.yaml")
    assert [chip.logical_id for chip in cluster.chips] == [0, 1, 2, 3]
    assert cluster.by_unique_id(18446744073709551002) == cluster.chips[2]
    assert cluster.by_unique_id(7) is None


def test_each_chip_has_the_grid_that_its_own_harvesting_leaves() -> None:
    cluster = read_cluster(DESCRIPTORS / "p150x4.yaml")
    assert [chip.tensix_harvested for chip in cluster.chips] == [2, 2, 2, 1]
    assert [device_spec(chip.board).grid for chip in cluster.chips] == [(11, 10)] * 3 + [(12, 10)]


def test_a_chips_spec_takes_how_the_device_is_opened() -> None:
    cluster = read_cluster(DESCRIPTORS / "n300.yaml")
    board = cluster.chips[1].board
    spec = device_spec(board, dispatch="slow", version="0.78-dev", l1_small_size=32_768)
    assert (spec.board, spec.l1_banks, spec.cb_base) == ("n300", 64, 105_664)
    assert spec.l1_small_bank_size == 32_768


def test_a_board_type_of_the_future_still_has_capacities() -> None:
    text = (DESCRIPTORS / "p150x4.yaml").read_text().replace("p150\n", "p999\n")
    cluster = parse_cluster(text.encode(), "future.yaml")
    spec = device_spec(cluster.chips[0].board)
    assert (spec.board, spec.grid) == ("p999", (11, 10))


def test_a_p150_with_one_harvested_column_has_120_compute_cores() -> None:
    text = (DESCRIPTORS / "p150x4.yaml").read_text()
    one_column = re.sub(r"\bharvest_mask: \d+", "harvest_mask: 128", text)

    cluster = parse_cluster(one_column.encode(), "p150x4")

    # What stock ttnn 0.81.1 says on mock devices of such a machine: 120 banks of 1,461,120 bytes.
    for chip in cluster.chips:
        spec = device_spec(chip.board)
        assert (spec.grid, spec.l1_banks) == ((12, 10), 120)
        assert spec.l1_capacity == 120 * 1_461_120
