"""Telemetry next to memory: matches cards with the devices of a snapshot."""

from __future__ import annotations

from ttmem.errors import BadInput, NoServer
from ttmem.events import CardSample, Telemetry
from ttmem.events.samples import no_telemetry
from ttmem.fast_dataclasses import replace
from ttmem.feeds.feed import Feed, idle_host
from ttmem.feeds.server_feed import ServerFeed
from ttmem.hw import bus_of, galaxy_position
from ttmem.hw.cards import Card, checked_root
from ttmem.snapshots import Device, Question, Snapshot
from ttmem.sources.telemetry.source import CardTelemetry, TelemetryReading, TelemetrySource

NUMBER_ONLY = "this device is known by its number only, which names no card"
NO_CARD = "no card of this host has the device's unique id, serial number or PCI address"
NO_ADDRESS = "its board has several chips, and which of them the card's sensors are on is not known"


class TelemetryFeed(Feed):
    """Adds the sensor readings of this host's cards to the snapshots of another feed.

    The cards are read here, even if a server made the snapshot: it is on the same host. If the other feed has nothing
    to read, unused cards still make a snapshot. `settled`: see `TelemetrySource.read`.
    """

    def __init__(self, feed: Feed, source: TelemetrySource, *, settled: bool = False) -> None:
        self._feed = feed
        self._source = source
        self._settled = settled

    @property
    def name(self) -> str:
        return self._feed.name

    def answer(self, question: Question) -> Snapshot:
        reading = self._source.read(settled=self._settled)
        try:
            snapshot = self._feed.answer(question)
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
) -> Feed:
    """`sysfs`: its root, if not /sys. `umd`: also ask the user-mode driver, which accesses the chips.

    A recording has samples of its own: the sensors of the present say nothing about the past.
    """
    if feed.telemetry is not None:
        if sysfs or umd:
            raise BadInput(
                "--sysfs and --umd read the sensors of the present; a recording has its own"
            )
        feed.telemetry = True
        return feed
    root = checked_root(sysfs)
    if not umd:
        return TelemetryFeed(feed, TelemetrySource(root), settled=settled)
    from ttmem.hw.umd import check_umd
    from ttmem.sources.telemetry.umd import UmdSensors

    check_umd()
    return TelemetryFeed(feed, TelemetrySource(root, umd=UmdSensors()), settled=settled)


def with_telemetry(snapshot: Snapshot, reading: TelemetryReading) -> Snapshot:
    """The snapshot with the telemetry of its devices, and the cards without a device.

    Devices are matched by unique id, PCI address, or serial number of the board, never by number: processes, tools and
    the driver all count differently.
    """
    taken: set[int] = set()
    devices = []
    for device in snapshot.devices:
        at = place(device.unique_id, device.pci, device.remote, reading.looks)
        if isinstance(at, int):
            taken.add(at)
            of, told = reading.looks[at]
            devices.append(_on(device, of, told))
        else:
            why = reading.absent or at or reading.remote
            devices.append(replace(device, telemetry=no_telemetry(why)))
    cards = [card_sample(*look) for at, look in enumerate(reading.looks) if at not in taken]
    return replace(snapshot, devices=tuple(devices), cards=tuple(cards))


def place(
    device: str, pci: str | None, remote: bool | None, looks: tuple[CardTelemetry, ...]
) -> int | str:
    """The index of a device's chip among the samples, or why there is none."""
    unique_id = int(device) if device.isdecimal() else None
    cards = list(enumerate(of for of, _ in looks))
    exact = [at for at, of in cards if unique_id is not None and of.asic_id == unique_id]
    address = [at for at, of in cards if pci is not None and of.pci == pci]
    if exact or address:
        return (exact or address)[0]
    if unique_id is None:
        return NO_CARD if pci else NUMBER_ONLY
    same_board = [(at, of) for at, of in cards if of.has(unique_id)]
    if remote or any(of.is_remote(unique_id) for _, of in same_board):
        return ""
    if len(same_board) == 1 and (same_board[0][1].is_the_chip(unique_id) or remote is False or pci):
        return same_board[0][0]
    return NO_ADDRESS if same_board else NO_CARD


def _on(device: Device, of: Card, told: Telemetry) -> Device:
    """The card may know what nobody reported about the device."""
    return replace(
        device,
        telemetry=told,
        pci=device.pci or of.pci,
        position=device.position or _position(of),
    )


def card_sample(of: Card, told: Telemetry) -> CardSample:
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
