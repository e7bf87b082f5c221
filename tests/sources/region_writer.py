"""Writes regions as the runtime does, from the layout's description and not from the reader."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

READY = 0x52454459
UNUSED_CHIP = 0xFFFFFFFF

Five = tuple[int, int, int, int, int]
NOTHING: Five = (0, 0, 0, 0, 0)
# Of a p150, and of this run alone: who else maps a region of that name is found in all of /proc.
OWN_CHIP = 4476187513037 + (os.getpid() << 2)


@dataclass
class Slot:
    """One process; updated now unless told otherwise."""

    pid: int
    held: Five = NOTHING
    name: bytes = b"python"
    updated_ns: int = field(default_factory=time.time_ns)
    kernels: int = 0  # where the layout has a counter for them


@dataclass
class Written:
    """A region before it is bytes; what is not given is what a sound region has."""

    number: int = OWN_CHIP
    version: int = 3
    slots: Sequence[Slot] = ()
    totals: Five | None = None
    chips: Sequence[tuple[int, Five]] | None = None
    references: int = 1
    logical_id: int = 0
    serial: int | None = None
    asic: int | None = None
    state: int = READY
    free_chip: int | None = None  # the id of free chip slots
    kernel_size: int | None = None  # of the file, if it has kernel counters

    def bytes(self) -> bytes:
        out = bytearray(self.kernel_size or 8576)
        more = self.kernel_size is not None
        chips_at, chip_size = (96, 56) if more else (88, 48)
        slots_at, slot_size, name_at = (992, 128, 64) if more else (856, 120, 56)
        split = self.version == 1
        serial = (self.number >> 8 if split else 0) if self.serial is None else self.serial
        asic = (self.number & 0xFF if split else self.number) if self.asic is None else self.asic
        sums = [sum(column) for column in zip(*(s.held for s in self.slots), strict=True)]
        totals = self.totals or (sums or NOTHING)
        struct.pack_into("<II", out, 0, self.version, len(self.slots))
        struct.pack_into("<QI", out, 8, time.time_ns(), self.references)
        struct.pack_into("<QQI", out, 24, serial, asic, self.logical_id)
        struct.pack_into("<5Q", out, 48, *totals)
        if more:
            struct.pack_into("<Q", out, 88, sum(slot.kernels for slot in self.slots))
        free = (0 if split else UNUSED_CHIP) if self.free_chip is None else self.free_chip
        chips = [(self.logical_id, totals)] if self.chips is None else self.chips
        for i in range(16):
            at = chips_at + chip_size * i
            if i < len(chips):
                struct.pack_into("<II5Q", out, at, chips[i][0], 0, *chips[i][1])
            else:
                struct.pack_into("<I", out, at, free)
        for j, slot in enumerate(self.slots):
            at = slots_at + slot_size * j
            struct.pack_into("<i", out, at, slot.pid)
            struct.pack_into("<5Q", out, at + 8, *slot.held)
            if more:
                struct.pack_into("<Q", out, at + 48, slot.kernels)
            struct.pack_into("<Q", out, at + name_at - 8, slot.updated_ns)
            out[at + name_at : at + name_at + len(slot.name)] = slot.name
        if self.version == 4:
            struct.pack_into("<I", out, 8536, self.state)
        return bytes(out)

    def write(self, folder: Path) -> Path:
        path = folder / f"tt_device_{self.number}_memory"
        path.write_bytes(self.bytes())
        return path


# -- A sysfs made of files, as the driver tt-kmd 2.10 lays it out


N300_SERIAL = "010001461190302B"
N300_LOCAL, N300_REMOTE = 0x26190302B, 0x36190302B

SENSORS = {
    "temp1_input": "51300",
    "temp1_max": "75000",
    "power1_input": "35000000",
    "power1_max": "160000000",
    "curr1_input": "40000",
    "curr1_max": "160000",
    "in0_input": "780",
    "in0_max": "850",
}
ATTRIBUTES = {
    "tt_aiclk": "1000",
    "tt_axiclk": "900",
    "tt_arcclk": "540",
    "tt_heartbeat": "1200",
    "tt_fw_bundle_ver": "18.10.0.0",
}


@dataclass(frozen=True, slots=True)
class CardFiles:
    """The files of one card, to be changed."""

    folder: Path  # of the class device, where the attributes are
    hwmon: Path

    def set(self, **words: str | bytes) -> None:
        """New text for some files, put there at once."""
        for name, word in words.items():
            place = (self.folder if name.startswith("tt_") else self.hwmon) / name
            data = word if isinstance(word, bytes) else f"{word}\n".encode()
            fresh = place.with_name(f".{name}.new")
            fresh.write_bytes(data)
            os.replace(fresh, place)

    def without(self, *names: str) -> None:
        for name in names:
            ((self.folder if name.startswith("tt_") else self.hwmon) / name).unlink()


def add_card(root: Path, number: int, bus: int = 1, **words: str | bytes) -> CardFiles:
    """A card at 0000:<bus>:00.0; `words` are files beside the usual ones, or instead of them."""
    pci = root / "devices" / "pci0000:00" / f"0000:{bus:02x}:00.0"
    folder = pci / "tenstorrent" / f"tenstorrent!{number}"
    hwmon = pci / "hwmon" / f"hwmon{number + 3}"
    for made in (folder, hwmon, root / "class" / "tenstorrent"):
        made.mkdir(parents=True) if not made.exists() else None
    (folder / "device").symlink_to(Path("../../../") / pci.name)
    link = root / "class" / "tenstorrent" / folder.name
    link.symlink_to(os.path.relpath(folder, link.parent))
    files = CardFiles(folder, hwmon)
    files.set(**SENSORS, **ATTRIBUTES, name="wormhole")
    files.set(**words)
    return files


def add_n300(root: Path, number: int = 0, bus: int = 1, **words: str | bytes) -> CardFiles:
    return add_card(root, number, bus, tt_card_type="n300", tt_serial=N300_SERIAL, **words)
