"""Where a chip sits in a Galaxy: four trays of eight chips, told apart by their PCI bus."""

from __future__ import annotations

import re

from ttmem.hw.boards import Board

# The high half of a bus number names the tray, the low half the chip on it. Trays 1 to 4:
_TRAYS = {"galaxy": (0xC0, 0x80, 0x00, 0x40), "bh-galaxy": (0x00, 0x40, 0xC0, 0x80)}
_CHIPS = 8
_PCI = re.compile(r"[0-9a-f]{4,8}:([0-9a-f]{2}):[0-9a-f]{2}\.[0-7]", re.ASCII)


def galaxy_position(board: Board | None, bus: int | None) -> str | None:
    """'T1:N3'; None if the board is no Galaxy, or has no chip on such a bus."""
    trays = _TRAYS.get(board.name) if board else None
    if trays is None or bus is None or bus & 0xF0 not in trays or bus > 0xFF:
        return None
    chip = bus & 0x0F
    return f"T{trays.index(bus & 0xF0) + 1}:N{chip}" if 1 <= chip <= _CHIPS else None


def galaxy_bus(board: Board, number: int) -> int | None:
    """The bus of a chip, the trays one after the other; None if the board is no Galaxy."""
    trays = _TRAYS.get(board.name)
    tray, chip = divmod(number, _CHIPS)
    return None if trays is None else trays[tray] | chip + 1


def bus_of(pci: str | None) -> int | None:
    """The bus in a PCI address such as 0000:c1:00.0; None of anything else."""
    address = _PCI.fullmatch(pci or "")
    return int(address[1], 16) if address else None
