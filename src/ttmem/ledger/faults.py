"""What went wrong inside ttmem while it handled one thing: that one is set aside, everything else goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ttmem.snapshots import Anomaly

MOST = 64  # things that are told apart
LONGEST = 200  # letters of an error


class Faults:
    """Counts them by what was handled, and tells of each."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._times: Counter[str] = Counter()
        self._last: dict[str, str] = {}

    def note(self, what: str, problem: Exception) -> None:
        """`what` names the connection, region or device."""
        if what not in self._times and len(self._times) >= MOST:
            what = "others"
        self._times[what] += 1
        self._last[what] = f"{type(problem).__name__}: {problem}"[:LONGEST]
        self._say(f"fault/{what}", self._sentence(what))

    def anomalies(self) -> list[Anomaly]:
        """For every picture, because something is missing in it."""
        return [Anomaly("fault", self._sentence(what)) for what in self._times]

    def _sentence(self, what: str) -> str:
        times = self._times[what]
        often = "" if times == 1 else f", {times:,} times"
        return f"ttmem could not handle {what} and leaves it out ({self._last[what]}{often})"
