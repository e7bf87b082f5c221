"""Trays and chips of a Galaxy, from the PCI bus; the buses are those of real machines."""

from __future__ import annotations

import pytest

from ttmem.hw import board, bus_of, galaxy_bus, galaxy_position


@pytest.mark.parametrize(
    ("name", "pci", "position"),
    [
        ("galaxy", "0000:c1:00.0", "T1:N1"),
        ("galaxy", "0000:84:00.0", "T2:N4"),
        ("galaxy", "0000:08:00.0", "T3:N8"),
        ("galaxy", "0000:41:00.0", "T4:N1"),
        ("bh-galaxy", "0000:01:00.0", "T1:N1"),  # its trays are in another order
        ("bh-galaxy", "0000:48:00.0", "T2:N8"),
        ("bh-galaxy", "0000:c3:00.0", "T3:N3"),
        ("bh-galaxy", "0000:81:00.0", "T4:N1"),
        ("galaxy", "0000:c0:00.0", None),  # chips count from 1
        ("galaxy", "0000:c9:00.0", None),
        ("galaxy", "0000:21:00.0", None),  # no tray
        ("p150", "0000:c1:00.0", None),
        ("n300", "0000:01:00.0", None),
    ],
)
def test_the_bus_tells_the_place_on_a_galaxy_and_nowhere_else(
    name: str, pci: str, position: str | None
) -> None:
    assert galaxy_position(board(name), bus_of(pci)) == position


@pytest.mark.parametrize("name", ["galaxy", "bh-galaxy"])
def test_every_chip_has_a_bus_and_so_a_place(name: str) -> None:
    buses = [galaxy_bus(board(name), number) for number in range(32)]

    assert [galaxy_position(board(name), bus) for bus in buses] == [
        f"T{tray}:N{chip}" for tray in range(1, 5) for chip in range(1, 9)
    ]


@pytest.mark.parametrize("pci", [None, "", "c1:00.0", "0000:xy:00.0", "0000:c1:00.9", "a:b:c"])
def test_what_is_no_pci_address_has_no_bus(pci: str | None) -> None:
    assert bus_of(pci) is None
