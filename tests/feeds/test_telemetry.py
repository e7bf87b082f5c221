"""Telemetry beside memory: the right card for each device, whatever its number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.server.harness import RunningServer
from tests.sources.region_writer import N300_LOCAL, N300_REMOTE, Written, add_card, add_n300
from ttmem.errors import NoServer
from ttmem.feeds import HostFeed, LocalFeed, ServerFeed
from ttmem.feeds.telemetry import TelemetryFeed, telemetry_feed
from ttmem.snapshots import Device, Snapshot, from_json, to_json
from ttmem.sources.telemetry.source import TelemetrySource

DESCRIPTORS = Path(__file__).parents[1] / "data" / "cluster_descriptors"
FIRST, SECOND = 17716556166399396846, 9000000000000000123  # chips with ids of their own


def _picture(folder: Path) -> Snapshot:
    with closing(telemetry_feed(LocalFeed(str(folder)))) as feed:
        return feed.read()


def _device(picture: Snapshot, number: int) -> Device:
    device = picture.device(str(number))
    assert device is not None
    return device


def _temperature(device: Device) -> float | None:
    assert device.telemetry is not None
    return device.telemetry.temperature_c


def _reasons(device: Device) -> set[str]:
    assert device.telemetry is not None
    return set(device.telemetry.reasons.values())


def test_devices_find_their_card_by_id_not_by_number(tmp_path: Path, sysfs: Path) -> None:
    add_card(sysfs, 0, 0x41, tt_asic_id=f"{FIRST:016X}", temp1_input="41000", tt_card_type="p100a")
    add_card(sysfs, 1, 0x01, tt_asic_id=f"{SECOND:016X}", temp1_input="1000", tt_card_type="p100a")
    Written(number=SECOND, logical_id=0).write(tmp_path)
    Written(number=FIRST, logical_id=1).write(tmp_path)

    picture = _picture(tmp_path)

    found = [(d.logical_id, d.pci, _temperature(d)) for d in picture.devices]
    assert sorted(found) == [(0, "0000:01:00.0", 1.0), (1, "0000:41:00.0", 41.0)]
    assert picture.cards == ()
    assert from_json(to_json(picture)) == picture


def test_the_local_chip_of_an_n300_has_the_card_and_the_remote_one_a_reason(
    tmp_path: Path, sysfs: Path
) -> None:
    add_n300(sysfs)
    for logical_id, number in enumerate((N300_LOCAL, N300_REMOTE)):
        Written(number=number, logical_id=logical_id).write(tmp_path)

    picture = _picture(tmp_path)

    local, remote = _device(picture, N300_LOCAL), _device(picture, N300_REMOTE)
    assert (local.remote, local.pci, _temperature(local)) == (False, "0000:01:00.0", 51.3)
    assert (remote.remote, remote.pci, _temperature(remote)) == (True, None, None)
    assert _reasons(remote) == {"a remote chip: only the user-mode driver reaches it (--umd)"}
    assert picture.cards == ()


def test_two_chips_of_a_board_whose_ids_do_not_tell_them_apart_have_none_of_its_cards(
    tmp_path: Path, sysfs: Path
) -> None:
    serial = 0x46123456789
    for number in range(2):
        add_card(sysfs, number, number + 1, tt_card_type="p300c", tt_serial=f"{serial:016X}")
        Written(number=serial << 5 | number, logical_id=number).write(tmp_path)

    picture = _picture(tmp_path)

    assert [_temperature(device) for device in picture.devices] == [None, None]
    assert (
        "which of them the card's sensors are on is not known" in _reasons(picture.devices[0]).pop()
    )
    assert [card.number for card in picture.cards] == [0, 1]


def test_a_card_without_a_device_is_in_the_picture(tmp_path: Path, sysfs: Path) -> None:
    add_card(sysfs, 3, 0xC2, tt_card_type="galaxy-wormhole", tt_serial="0100035100000000")
    Written(number=FIRST).write(tmp_path)

    picture = _picture(tmp_path)

    (card,) = picture.cards
    assert (card.number, card.board, card.arch, card.pci, card.serial, card.position) == (
        3,
        "galaxy",
        "wormhole",
        "0000:c2:00.0",
        "0100035100000000",
        "T1:N2",
    )
    assert card.telemetry.temperature_c == 51.3
    assert _reasons(picture.devices[0]) == {
        "no card of this host has the device's unique id, serial number or PCI address"
    }
    assert from_json(to_json(picture)) == picture


def test_a_host_without_the_driver_says_so_of_every_device(tmp_path: Path, sysfs: Path) -> None:
    Written(number=N300_REMOTE).write(tmp_path)

    (device,) = _picture(tmp_path).devices

    assert _reasons(device) == {f"the driver is not loaded: there is no {sysfs}/class/tenstorrent"}


def test_idle_cards_are_a_picture_where_nobody_reports_memory(tmp_path: Path, sysfs: Path) -> None:
    server = ServerFeed(str(tmp_path / "none.sock"))
    with pytest.raises(NoServer):
        telemetry_feed(HostFeed(server)).read()

    add_n300(sysfs)
    picture = telemetry_feed(HostFeed(server)).read()

    assert picture.devices == ()
    assert [card.telemetry.power_w for card in picture.cards] == [35.0]
    with pytest.raises(NoServer):  # that server was asked for, and nothing else
        telemetry_feed(server).read()


@contextmanager
def _served(folder: Path, *options: str) -> Iterator[RunningServer]:
    server = RunningServer(folder, *options).wait_ready()
    try:
        yield server
    finally:
        server.kill()


def test_a_picture_of_a_server_has_the_telemetry_of_the_host_it_is_shown_on(
    tmp_path: Path, sysfs: Path
) -> None:
    add_n300(sysfs)
    Written(number=N300_LOCAL).write(tmp_path)
    with _served(tmp_path, "--shm", str(tmp_path)) as server:
        server.sees(lambda picture: bool(picture.devices))
        with closing(TelemetryFeed(ServerFeed(server.path), TelemetrySource())) as feed:
            (device,) = feed.read().devices

    assert (device.remote, _temperature(device)) == (False, 51.3)


def test_a_server_with_a_cluster_descriptor_names_its_chips(tmp_path: Path) -> None:
    descriptor = str(DESCRIPTORS / "n300.yaml")
    with _served(tmp_path, "--no-shm", "--cluster", descriptor) as server:
        devices = server.picture().devices

    assert [(device.logical_id, device.remote) for device in devices] == [(0, False), (1, True)]
