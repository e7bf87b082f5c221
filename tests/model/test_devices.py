"""Opening and closing devices and meshes, from a board's name or a cluster descriptor."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.client.peer import Peer
from tests.model.running import RecordingTracker
from tests.patience import wait_until
from ttmem.client import AllocationClient, GraphTracker
from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.hw import Arch
from ttmem.hw.descriptor import read_cluster
from ttmem.model import create_buffer, open_device, open_mesh_device
from ttmem.model.errors import BadMesh

DESCRIPTORS = Path(__file__).parents[1] / "data" / "cluster_descriptors"


@pytest.fixture
def tracker() -> RecordingTracker:
    return RecordingTracker()


def test_one_device_is_a_mesh_of_one(tracker: RecordingTracker) -> None:
    with open_device(3, tracker=tracker) as mesh:
        assert (mesh.shape, mesh.get_device_ids(), mesh.spec.board) == ((1, 1), [3], "p150")
        assert mesh.compute_with_storage_grid_size() == (11, 10)
    assert not mesh.is_open


def test_each_chip_is_declared_with_its_figures(tracker: RecordingTracker) -> None:
    mesh = open_mesh_device((1, 2), l1_small_size=32768, tracker=tracker)

    assert tracker.declared == [device.declaration for device in mesh.get_devices()]
    assert [device.logical_id for device in tracker.declared] == [0, 1]
    assert {
        (device.board, device.l1_banks, device.l1_bank_size) for device in tracker.declared
    } == {("p150", 110, 1_428_352)}


def test_made_up_cards_have_the_same_ids_each_time(tracker: RecordingTracker) -> None:
    small, large = (
        open_mesh_device(shape, board="galaxy", tracker=tracker).get_devices()
        for shape in ((1, 4), (4, 8))
    )
    ids = [device.unique_id for device in large]

    assert [device.unique_id for device in small] == ids[:4]
    assert len(set(ids)) == len({device.pci for device in large}) == 32


def test_the_second_chip_of_an_n300_has_no_pci_address(tracker: RecordingTracker) -> None:
    mesh = open_mesh_device((2, 2), board="n300", tracker=tracker)

    found = [device.pci for device in mesh.get_devices()]
    assert found == ["0000:01:00.0", None, "0000:02:00.0", None]


def test_a_cluster_gives_its_chips_and_their_harvesting(tracker: RecordingTracker) -> None:
    mesh = open_mesh_device((1, 3), cluster=DESCRIPTORS / "p150x4.yaml", tracker=tracker)
    first = mesh.get_devices()[0]

    assert mesh.get_device_ids() == [0, 1, 2]
    assert (first.unique_id, first.spec.arch) == ("18446744073709551000", Arch.BLACKHOLE)
    assert first.pci == read_cluster(DESCRIPTORS / "p150x4.yaml").chips[0].pci


def test_a_chip_of_a_cluster_is_opened_with_its_own_grid(tracker: RecordingTracker) -> None:
    cluster = read_cluster(DESCRIPTORS / "p150x4.yaml")

    assert open_device(3, cluster=cluster, tracker=tracker).spec.grid == (12, 10)


@pytest.mark.parametrize(
    ("board", "dispatch", "banks"),
    [
        ("n150", "slow", 72),
        ("n150", "row", 64),
        ("n150", "col", 63),
        ("n300", None, 64),
        ("p150", None, 110),
        ("p150", "slow", 120),
    ],
)
def test_dispatch_decides_how_many_banks_there_are(
    board: str, dispatch: str | None, banks: int, tracker: RecordingTracker
) -> None:
    mesh = open_device(board=board, dispatch=dispatch, tracker=tracker)

    assert mesh.memory_view(MemoryKind.L1).num_banks == banks


@pytest.mark.parametrize("shape", [(), (4,), (1, 0), (-1, -1), (1, 2, 3), (1, 1.5), (10**9, 10**9)])
def test_an_impossible_shape_is_refused(shape: tuple[int, ...], tracker: RecordingTracker) -> None:
    with pytest.raises(BadMesh):
        open_mesh_device(shape, tracker=tracker)
    assert tracker.declared == []


@pytest.mark.parametrize(
    ("shape", "ids", "says"),
    [
        ((1, 5), (), "needs 5 devices, but there are only 4"),
        ((1, 1), (9,), "no device 9 in this cluster"),
        ((1, 2), (1, 1), "2 different devices"),
        ((1, 2), (1,), "2 different devices"),
        ((1, 4), (), "devices 0 and 3 are not harvested alike"),
    ],
)
def test_a_mesh_that_a_cluster_cannot_form_is_refused(
    shape: tuple[int, int], ids: tuple[int, ...], says: str, tracker: RecordingTracker
) -> None:
    with pytest.raises(BadMesh, match=says):
        open_mesh_device(
            shape,
            cluster=DESCRIPTORS / "p150x4.yaml",
            physical_device_ids=ids,
            tracker=tracker,
        )
    assert tracker.declared == []


@pytest.mark.parametrize(
    "options",
    [
        {"board": "p9000"},
        {"num_command_queues": 3},
        {"l1_small_size": -1},
        {"worker_l1_size": 1 << 30},
        {"cluster": "/nowhere.yaml"},
        {"dispatch": "fast"},
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, object], tracker: RecordingTracker) -> None:
    with pytest.raises(BadInput):
        open_device(tracker=tracker, **options)  # type: ignore[arg-type]
    assert tracker.declared == []


def test_a_device_number_below_zero_is_refused(tracker: RecordingTracker) -> None:
    with pytest.raises(BadMesh, match="device ids are 0 to"):
        open_device(-1, tracker=tracker)


def test_what_hangs_on_a_mesh_ends_before_it_the_latest_first(tracker: RecordingTracker) -> None:
    mesh = open_device(tracker=tracker)
    order: list[tuple[str, bool]] = []
    mesh.on_close.append(lambda: order.append(("first", mesh.is_open)))
    mesh.on_close.append(lambda: order.append(("second", mesh.is_open)))
    mesh.close()

    assert order == [("second", True), ("first", True)]


def test_a_hook_that_fails_keeps_nothing_allocated(tracker: RecordingTracker) -> None:
    mesh = open_device(tracker=tracker)
    create_buffer(mesh, 64, 64, MemoryKind.DRAM)
    mesh.on_close.append(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        mesh.close()
    assert (mesh.is_open, tracker.live()) == (False, set())


def test_the_real_client_reports_every_chip_to_a_server() -> None:
    with tempfile.TemporaryDirectory(prefix="ttmem") as folder:
        peer = Peer(f"{folder}/socket")
        client = AllocationClient(f"{folder}/socket")
        tracker = GraphTracker(client)
        tracker.enabled = True
        with open_mesh_device((2, 2), tracker=tracker) as mesh:
            kept = create_buffer(mesh, 2048, 2048, MemoryKind.L1, site="model.py:1")
            wait_until(lambda: len((peer.picture() or {}).get("buffers", [])) == 4)
            session = peer.session()
            assert session is not None
            held = dict(session.accounts.buffers)
            declared = sorted(session.devices)
        wait_until(lambda: (peer.picture() or {}).get("buffers") == [])
        client.close(0)
        peer.close()

    assert held == {(chip, 1, kept.id): (2048, 1) for chip in range(4)}
    assert (declared, peer.complaints) == ([0, 1, 2, 3], [])
