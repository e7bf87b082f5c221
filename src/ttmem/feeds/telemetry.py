"""Telemetry beside memory: which card a device of a snapshot is, and what its sensors say."""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.errors import NoServer
from ttmem.events import CardSample, Telemetry
from ttmem.events.samples import no_telemetry
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import Feed, idle_host
from ttmem.feeds.server_feed import ServerFeed
from ttmem.hw import bus_of, galaxy_position
from ttmem.hw.cards import Card, checked_root
from ttmem.snapshots import Device, Snapshot
from ttmem.sources.telemetry.source import CardTelemetry, TelemetryReading, TelemetrySource

NUMBER_ONLY = "this device is known by its number only, which names no card"
NO_CARD = "no card of this host has the device's unique id, serial number or PCI address"
NO_ADDRESS = "its board has several chips, and which of them the card's sensors are on is not known"


class TelemetryFeed:
    """Another feed's snapshots, with what the sensors of this host's cards say at the same time.

    The cards are read here, whoever made the snapshot: a server is on the same host. Cards that no process
    uses are worth a snapshot too, where the other feed has nothing to read. `settled`: see `TelemetrySource.read`.
    """

    def __init__(self, feed: Feed, source: TelemetrySource, *, settled: bool = False) -> None:
        self._feed = feed
        self._source = source
        self._settled = settled

    @property
    def name(self) -> str:
        """Of the other feed."""
        return self._feed.name

    def read(
        self,
        detail: Iterable[str] = (),
        *,
        device: str | None = None,
        limit: int | None = None,
    ) -> Snapshot:
        """See `Feed.read`."""
        reading = self._source.read(settled=self._settled)
        try:
            snapshot = self._feed.read(detail, device=device, limit=limit)
        except NoServer:
            if isinstance(self._feed, ServerFeed) or not reading.looks:
                raise
            snapshot = idle_host()
        return with_telemetry(snapshot, reading)

    def close(self) -> None:
        """Closes the other feed, and ends the process that asks the user-mode driver, if there is one."""
        self._feed.close()
        self._source.close()


def telemetry_feed(
    feed: Feed, sysfs: str | None = None, *, umd: bool = False, settled: bool = False
) -> TelemetryFeed:
    """`sysfs`: its root, if not /sys. `umd`: also ask the user-mode driver, which touches the chips."""
    root = checked_root(sysfs)
    if not umd:
        return TelemetryFeed(feed, TelemetrySource(root), settled=settled)
    from ttmem.hw.umd import check_umd
    from ttmem.sources.telemetry.umd import UmdSensors

    check_umd()
    return TelemetryFeed(feed, TelemetrySource(root, umd=UmdSensors()), settled=settled)


def with_telemetry(snapshot: Snapshot, reading: TelemetryReading) -> Snapshot:
    """The snapshot with the telemetry of its devices, and the cards that none of them is on.

    A device is matched by its unique id, its PCI address, or the serial number of its board, never by its
    number: processes, tools and the driver all count differently.
    """
    taken: set[int] = set()
    devices = []
    for device in snapshot.devices:
        at = _place(device, reading.looks)
        if isinstance(at, int):
            taken.add(at)
            of, told = reading.looks[at]
            devices.append(_on(device, of, told))
        else:
            why = reading.absent or at or reading.remote
            devices.append(replace(device, telemetry=no_telemetry(why)))
    cards = [_sample(*look) for at, look in enumerate(reading.looks) if at not in taken]
    return replace(snapshot, devices=tuple(devices), cards=tuple(cards))


def _place(device: Device, looks: tuple[CardTelemetry, ...]) -> int | str:
    """Where the device's chip is among the looks, or why it is not; no word of a remote one."""
    unique_id = int(device.unique_id) if device.unique_id.isdecimal() else None
    cards = list(enumerate(of for of, _ in looks))
    exact = [at for at, of in cards if unique_id is not None and of.asic_id == unique_id]
    address = [at for at, of in cards if device.pci is not None and of.pci == device.pci]
    if exact or address:
        return (exact or address)[0]
    if unique_id is None:
        return NO_CARD if device.pci else NUMBER_ONLY
    same_board = [(at, of) for at, of in cards if of.has(unique_id)]
    if device.remote or any(of.is_remote(unique_id) for _, of in same_board):
        return ""
    if len(same_board) == 1 and (same_board[0][1].is_the_chip(unique_id) or device.remote is False):
        return same_board[0][0]
    return NO_ADDRESS if same_board else NO_CARD


def _on(device: Device, of: Card, told: Telemetry) -> Device:
    """The card may know what nobody said of the device."""
    return replace(
        device,
        telemetry=told,
        pci=device.pci or of.pci,
        position=device.position or _position(of),
    )


def _sample(of: Card, told: Telemetry) -> CardSample:
    return CardSample(
        number=of.number,
        board=of.board.name if of.board else None,
        arch=of.board.arch.value if of.board else None,
        pci=of.pci,
        serial=None if of.serial is None else f"{of.serial:016X}",
        asic_id=None if of.asic_id is None else str(of.asic_id),
        remote=of.number is None and of.pci is None,
        position=_position(of),
        telemetry=told,
    )


def _position(of: Card) -> str | None:
    return galaxy_position(of.board, bus_of(of.pci))
