"""Pages as pictures. TTMEM_UPDATE_PICTURES=1 takes them anew; then look at them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timezone
from pathlib import Path

from ttmem.snapshots import Snapshot
from ttmem.views.ink import line_columns
from ttmem.views.monitor.state import Drawn, Look, Page, State

PICTURES = Path(__file__).parent / "pictures"
SIZES = ((80, 20), (120, 36), (200, 56))
PICTURED = (
    "empty_host",
    "one_device",
    "four_devices",
    "thirty_two_devices",
    "sixty_processes",
    "seed_004_on_a_real_n300",
    "unknown_capacities",
    "hostile_strings",
)


def look_at(
    snapshot: Snapshot, width: int = 120, height: int = 36, state: State | None = None
) -> Look:
    return Look(snapshot, {}, State() if state is None else state, width, height, timezone.utc)


def lines(drawn: Drawn) -> list[str]:
    return ["".join(span.text for span in line).rstrip() for line in drawn.lines]


def draw(page: Page, look: Look, keys: Sequence[str] = ()) -> list[str]:
    """The lines after some keys; no more and no wider than the page."""
    for key in keys:
        page.key(key, look)
    drawn = page.draw(look)
    assert len(drawn.lines) <= look.height
    assert [line for line in drawn.lines if line_columns(line) > look.width] == []
    assert [t for t in drawn.targets if not 0 <= t.line < len(drawn.lines)] == []
    return lines(drawn)


def compare(name: str, picture: Sequence[str]) -> None:
    file = PICTURES / f"{name}.txt"
    if os.environ.get("TTMEM_UPDATE_PICTURES") == "1":
        PICTURES.mkdir(exist_ok=True)
        file.write_text("\n".join(picture) + "\n", encoding="utf-8")
    assert file.read_text(encoding="utf-8") == "\n".join(picture) + "\n"
