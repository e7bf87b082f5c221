"""The help screen: keys, every column of every page, and where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ttmem.snapshots import Snapshot
from ttmem.text import columns
from ttmem.views.ink import EMPTY, Line, Style, faint, indent, ink, paragraph
from ttmem.views.monitor.state import Drawn, Page, terms
from ttmem.views.names import DeviceNames

FOOTER = (
    ("q", "quit"),
    ("h", "help"),
    ("/", "filter"),
    ("space", "pause"),
    ("Tab", "device"),
    ("u", "units"),
    ("+ -", "interval"),
    ("[ ]", "span"),
    ("d", "light"),
)

BACK = ("{", "go back")  # while the present is shown, and the past is kept

HELP = terms("""
1 - 6 | the pages, as in the line of tabs; or click on a tab
arrows | move the cursor; so do PgUp, PgDn, Home, End and the mouse wheel
Enter | opens the row under the cursor; so does a second click on it
Esc | goes back; first it closes the help and clears the filter
Tab | shows the next device; Shift-Tab the one before
/ | filters rows by text while you type; Enter keeps the filter, Esc clears it
s  S | sorts by the next column; S reverses the order
space  p | pauses and continues; sorting and pages work while paused
+  - | reads more or less often: every 0.1, 0.2, 0.5, 1, 2, 5 or 10 seconds
[  ] | shows less or more history in charts: 1, 5, 15 or 60 minutes
u | writes amounts as KiB/MiB/GiB, as MiB, or as bytes
d | dark or light
h  ? | this text
q | quits; so does Ctrl-C
""")

# While a recording is shown, the time bar has these keys.
OF_RECORDINGS = ("space  p", "+  -")
MOVES_IN_RECORDING = "move the cursor; so do PgUp, PgDn and the mouse wheel"

TERM = 16  # columns for a key or a column's name
_STEPS = {"up": -1, "down": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}


class HelpScreen:
    """The help over a page, scrolled by the same keys as a list."""

    def __init__(self) -> None:
        self.open = False
        self._first = 0
        self._last = 0  # the last line that can be the first one shown

    def press(self, key: str) -> None:
        """Moves it, or closes it."""
        if key in ("escape", "h", "?", "enter"):
            self.open, self._first = False, 0
        elif key in _STEPS:
            self._first = max(0, min(self._first + _STEPS[key], self._last))

    def draw(self, lines: Sequence[Line], height: int) -> Drawn:
        """The part in sight, and how much is below."""
        self._last = max(len(lines) - (height - 1), 0)
        self._first = min(self._first, self._last)
        below = self._last - self._first
        more = f" {below} more lines below" if below else " end of the help; Esc closes it"
        return Drawn([*lines[self._first :][: height - 1], faint(more)])


def help_lines(
    pages: Sequence[Page],
    chosen: int,
    snapshot: Snapshot | None,
    width: int,
    time_keys: Sequence[tuple[str, str]] = (),
    live: bool = False,
) -> list[Line]:
    """The page that is shown comes first; `time_keys`: those of the time bar, or those that lead to it."""
    order = [pages[chosen], *(page for page in pages if page is not pages[chosen])]
    bar = _section("Going back" if live else "Time bar", time_keys, width)
    keys = HELP if live or not time_keys else _without_time_bar(HELP)
    lines = _section("Keys of every page", keys, width)
    lines = [*lines, *bar] if live else [*bar, *lines]
    for page in order:
        lines += _section(f"{page.name}: keys", page.keys, width)
        lines += _section(f"{page.name}: what is shown, and how it is measured", page.help, width)
    if snapshot is not None:
        remarks = [(remark.kind, remark.text) for remark in snapshot.remarks]
        lines += _section("Remarks of the sources", remarks, width)
        lines += _section("Where the numbers come from", _sources(snapshot), width)
    return lines


def _without_time_bar(entries: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    kept = dict(entries) | {"arrows": MOVES_IN_RECORDING}
    return [(key, does) for key, does in kept.items() if key not in OF_RECORDINGS]


def _section(title: str, entries: Iterable[tuple[str, str]], width: int) -> list[Line]:
    lines = [line for term, text in entries for line in entry_lines(term, text, width)]
    return [ink(f" {title}", Style.TITLE), *lines, EMPTY] if lines else []


def entry_lines(term: str, text: str, width: int) -> list[Line]:
    name = ink(f"  {term}", Style.LABEL)
    if columns(term) + 3 > TERM:
        return [name, *indent(paragraph(text, width - TERM - 1), TERM)]
    return indent(paragraph(text, width - TERM - 1), TERM, name)


def _sources(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Each source and method, with the devices it is used for."""
    where: dict[tuple[str, str], list[str]] = {}
    for device in snapshot.devices:
        for number, origin in device.provenance.items():
            misses = f"; it misses: {origin.misses}" if origin.misses else ""
            text = f"{origin.source}: {origin.method}{misses}"
            where.setdefault((number, text), []).append(device.unique_id)
    names = DeviceNames.of(snapshot)
    return [
        (number, f"{names.sentence(devices)}: {text}") for (number, text), devices in where.items()
    ]
