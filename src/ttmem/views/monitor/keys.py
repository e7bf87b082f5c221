"""The keys that every page has, for the footer and the help."""

from __future__ import annotations

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds

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

HELP = (
    ("1 - 6", "the views, as in the line of tabs; a click on a tab does the same"),
    ("arrows", "move the cursor; so do PgUp, PgDn, Home, End and the wheel of the mouse"),
    ("Enter", "goes deeper into what the cursor is on; so does a click on it"),
    ("Esc", "goes back; it closes the help and clears the filter first"),
    ("Tab", "shows the next device; Shift-Tab the one before"),
    ("/", "filters rows by text while you type; Enter keeps the filter, Esc clears it"),
    ("s  S", "sorts by the next column; S turns the order round"),
    ("space  p", "holds the picture, goes on again; sorting and views still work"),
    ("+  -", "reads more or less often: every 0.1, 0.2, 0.5, 1, 2, 5 or 10 seconds"),
    ("[  ]", "shows less or more of the past in charts: 1, 5, 15 or 60 minutes"),
    ("u", "writes amounts as KiB/MiB/GiB, as MiB, or as bytes"),
    ("d", "dark or light"),
    ("h  ?", "this text"),
    ("q", "quits; so does Ctrl-C"),
)
