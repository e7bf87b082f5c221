"""Cards that are there, and cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.doctor.finding import Finding, Level
from ttmem.sources.host import HostFacts


def card_findings(facts: HostFacts) -> Iterator[Finding]:
    if not facts.cards:
        said = "no card" if facts.driver else "no card, and the driver is not loaded"
        yield Finding("no_card", Level.INFO, f"{said}: only mock devices and models can run here")
    for card in facts.cards:
        if card.node is None:
            yield Finding(
                "no_device_file",
                Level.WARNING,
                f"card {card.name} has no device file here, so nothing can open it",
                "docker run --device /dev/tenstorrent ...",
            )
        elif not card.usable:
            yield Finding(
                "closed_card",
                Level.WARNING,
                f"card {card.name} is closed to you: its device file is not yours to read and write",
                f"sudo chmod a+rw {card.node}",
                path=card.node,
            )
