"""What the user has chosen; it survives every refresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ttmem.sizes import human

SPANS = (60, 300, 900, 3600)  # seconds of history a chart can show


class Units(Enum):
    """How amounts are written."""

    BINARY = "KiB/MiB/GiB"
    MEBIBYTES = "MiB"
    BYTES = "bytes"

    def text(self, count: int | None) -> str:
        """An amount; unknown is 'N/A'."""
        if count is None or self is Units.BINARY:
            return human(count)
        return f"{count:,} B" if self is Units.BYTES else f"{count / (1 << 20):,.1f} MiB"


@dataclass(slots=True)
class PageState:
    """The choices of one page."""

    cursor: int = 0  # the chosen row; a page clamps it to what is there
    top: int = 0  # the first row in sight; moved so far that the cursor is seen
    sort: int = 0  # index into the page's sort columns
    reverse: bool = False


@dataclass(slots=True)
class State:
    """The choices of all pages."""

    page: int = 0  # index into PAGES
    device: str | None = (
        None  # unique id that the Device, Cores and Kernels pages show; None: the first
    )
    core: tuple[int, int] | None = None  # chosen core (x, y)
    filter: str = ""
    units: Units = Units.BINARY
    span: int = SPANS[1]
    paused: bool = False
    pages: dict[str, PageState] = field(default_factory=dict)

    def of(self, page: str) -> PageState:
        """The choices of a page, by its name."""
        return self.pages.setdefault(page, PageState())
