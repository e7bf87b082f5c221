"""A sysfs made of files, as the driver tt-kmd 2.10 lays it out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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
