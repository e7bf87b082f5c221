"""Cards as driver and /dev have them."""

from __future__ import annotations

import os

from ttmem.sources.cards import NODES, Card, cards
from ttmem.sources.host.facts import CardFacts

_DRIVER = "/sys/module/tenstorrent/version"


def driver_version(path: str = _DRIVER) -> str | None:
    """None if the driver is not loaded."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(64).strip() or None
    except OSError:
        return None


def card_facts(sysfs: str | None = None, nodes: str = NODES) -> tuple[CardFacts, ...]:
    """Those of sysfs with their device files, then device files without a card in sysfs."""
    there = set(_names(nodes))
    listed = {str(card.number): card for card in cards(sysfs)}
    numbers = [number for number in {*listed, *there} if number.isdigit()]
    numbers.sort(key=lambda number: (len(number), number))
    return tuple(
        _facts(number, listed.get(number), f"{nodes}/{number}" if number in there else None)
        for number in numbers
    )


def _facts(number: str, card: Card | None, node: str | None) -> CardFacts:
    return CardFacts(
        name=number,
        board=card.board.name if card and card.board else None,
        pci=card.pci if card else None,
        node=node,
        usable=None if node is None else os.access(node, os.R_OK | os.W_OK),
    )


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
