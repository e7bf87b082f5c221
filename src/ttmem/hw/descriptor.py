"""From the document of a cluster descriptor to a Cluster, trusting nothing.

| section                | shape                                            | here      |
|------------------------|--------------------------------------------------|-----------|
| `arch`                 | {chip: name}                                     | needed    |
| `chips_with_mmio`      | [{chip: index}], or [chip]                       | needed    |
| `harvesting`           | {chip: {harvest_mask, dram_harvesting_mask ...}} | needed    |
| `boards`               | [[{board_id}, {board_type}, {chips: [chip]}]]    | needed    |
| `ethernet_connections` | [[{chip, chan}, {chip, chan}]]                   | needed    |
| `chip_unique_ids`      | {chip: number}                                   | optional  |
| `chip_pci_bdfs`        | {chip: domain:bus:device.function}, MMIO only    | optional  |
| `chip_to_bus_id`       | {chip: hexadecimal}                              | optional  |
| `asic_locations`       | {chip: number}                                   | optional  |
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from ttmem.errors import BadInput
from ttmem.hw.arch import Arch
from ttmem.hw.boards import find_board
from ttmem.hw.chips import Chip, Cluster, Link
from ttmem.hw.fields import U32, Field
from ttmem.hw.galaxy import bus_of
from ttmem.hw.gateways import find_gateways

_Value = TypeVar("_Value")


def cluster_of(document: Field) -> Cluster:
    archs = {chip: _arch(field) for chip, field in document.need("arch").by_chip().items()}
    if not archs:
        raise document.wrong("'arch' names no chip")
    mmio = _mmio(document.need("chips_with_mmio"), archs)
    boards = _boards(document.need("boards"), archs)
    links = _links(document.need("ethernet_connections"), archs)
    unique_ids = _optional(document, "chip_unique_ids", archs, Field.number)
    _check_unique(document, unique_ids)
    addresses = _optional(document, "chip_pci_bdfs", mmio, _bdf)
    buses = _optional(document, "chip_to_bus_id", archs, _bus)
    locations = _optional(document, "asic_locations", archs, Field.number)
    masks = _of_chips(document.need("harvesting"), archs, _masks)
    board_ids = {chip: boards[chip][0] if chip in boards else None for chip in archs}
    gateways = find_gateways(board_ids, mmio, links)
    for chip in archs:
        if chip not in masks:
            raise document.need("harvesting").wrong(f"chip {chip} is missing")
    chips = (
        Chip(
            logical_id=chip,
            unique_id=unique_ids.get(chip),
            arch=archs[chip],
            board_type=boards[chip][1] if chip in boards else None,
            board_id=board_ids[chip],
            pci=addresses.get(chip),
            bus_id=buses.get(chip),
            mmio_index=mmio.get(chip),
            gateway=gateways.get(chip),
            tensix_mask=masks[chip][0],
            dram_mask=masks[chip][1],
            eth_mask=masks[chip][2],
            asic_location=locations.get(chip),
        )
        for chip in sorted(archs)
    )
    return Cluster(tuple(chips), links)


def _of_chips(
    section: Field, known: Collection[int], convert: Callable[[Field], _Value]
) -> dict[int, _Value]:
    fields = section.by_chip()
    for chip in fields:
        _check_known(section, chip, known)
    return {chip: convert(field) for chip, field in fields.items()}


def _optional(
    document: Field, name: str, known: Collection[int], convert: Callable[[Field], _Value]
) -> dict[int, _Value]:
    section = document.get(name)
    return {} if section is None else _of_chips(section, known, convert)


def _check_known(field: Field, chip: int, known: Collection[int]) -> None:
    if chip not in known:
        raise field.wrong(f"chip {chip} does not belong here; known chips: {_listed(known)}")


def _listed(chips: Collection[int]) -> str:
    first = [str(chip) for chip in sorted(chips)[:8]]
    return ", ".join([*first, "..."] if len(chips) > 8 else first) or "none"


def _check_unique(document: Field, unique_ids: dict[int, int]) -> None:
    owners: dict[int, int] = {}
    for chip, unique_id in unique_ids.items():
        if unique_id in owners:
            where = document.need("chip_unique_ids")
            raise where.wrong(f"chips {owners[unique_id]} and {chip} have the same id {unique_id}")
        owners[unique_id] = chip


def _arch(field: Field) -> Arch:
    name = field.text()
    try:
        return Arch.parse(name)
    except BadInput as error:
        raise field.wrong(str(error)) from None


def _mmio(section: Field, archs: Collection[int]) -> dict[int, int]:
    indices: dict[int, int] = {}
    for entry in section.sequence():
        if isinstance(entry.value, dict):
            pairs = [(chip, field.chip_id()) for chip, field in entry.by_chip().items()]
        else:
            pairs = [(entry.chip_id(), entry.chip_id())]
        for chip, index in pairs:
            _check_known(entry, chip, archs)
            if chip in indices:
                raise entry.wrong(f"chip {chip} occurs twice")
            indices[chip] = index
    return indices


def _boards(section: Field, archs: dict[int, Arch]) -> dict[int, tuple[int, str]]:
    """(board id, board type) by chip."""
    found: dict[int, tuple[int, str]] = {}
    for entry in section.sequence():
        parts = {key: field for part in entry.sequence() for key, field in part.mapping().items()}
        for key in ("board_id", "board_type", "chips"):
            if key not in parts:
                raise entry.wrong(f"{key!r} is missing")
        board = parts["board_id"].number(), parts["board_type"].text()
        known = find_board(board[1])
        for field in parts["chips"].sequence():
            chip = field.chip_id()
            _check_known(field, chip, archs)
            if chip in found:
                raise field.wrong(f"chip {chip} is on two boards")
            if known is not None and known.arch is not archs[chip]:
                raise field.wrong(f"chip {chip} is {archs[chip]}, but {board[1]} is {known.arch}")
            found[chip] = board
    return found


def _links(section: Field, archs: Collection[int]) -> tuple[Link, ...]:
    """Both directions of a link may be listed; it is one link."""
    peers: dict[tuple[int, int], tuple[int, int]] = {}
    links = set()
    for entry in section.sequence():
        ends = entry.sequence()
        if not 2 <= len(ends) <= 3:  # the third, if any, says whether the link routes
            raise entry.wrong("must name two ends, each with chip and chan")
        low, high = sorted(_end(field, archs) for field in ends[:2])
        if peers.setdefault(low, high) != high or peers.setdefault(high, low) != low:
            raise entry.wrong("one of the two channels is already linked to another")
        links.add(Link(*low, *high))
    return tuple(sorted(links))


def _end(field: Field, archs: Collection[int]) -> tuple[int, int]:
    chip = field.need("chip").chip_id()
    _check_known(field, chip, archs)
    return chip, field.need("chan").number(U32)


def _masks(field: Field) -> tuple[int, int, int]:
    optional = (field.get("dram_harvesting_mask"), field.get("eth_harvesting_mask"))
    dram, eth = (0 if mask is None else mask.number(U32) for mask in optional)
    return field.need("harvest_mask").number(U32), dram, eth


def _bdf(field: Field) -> str:
    address = field.text().lower()
    if bus_of(address) is None:
        raise field.wrong(f"must be a PCI address such as 0000:01:00.0, not {address[:40]!r}")
    return address


def _bus(field: Field) -> int:
    text = field.text()
    if not text.startswith("0x"):
        raise field.wrong(f"must be hexadecimal such as 0x01, not {text[:40]!r}")
    return field.number(0xFFFF)
