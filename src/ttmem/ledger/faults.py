"""What is left out of a picture: what ttmem failed to handle, and what one user took too much of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ttmem.snapshots import Anomaly

MOST = 64  # things that are told apart
LONGEST = 200  # letters of an error


class Limits:
    """What was refused to users who took too much: counted by user, and told."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        self._say = say
        self._times: Counter[tuple[str, str]] = Counter()

    def note(self, user: str, what: str) -> None:
        """`user` is a title, `what` says what was done about it."""
        if (user, what) not in self._times and len(self._times) >= MOST:
            user = "other users"
            what = what if (user, what) in self._times else "too much"
        self._times[user, what] += 1
        self._say(f"limit/{user}/{what}", self._sentence(user, what))

    def anomalies(self) -> list[Anomaly]:
        """For every picture: somebody may miss something in it."""
        return [Anomaly("limit", self._sentence(*key)) for key in self._times]

    def _sentence(self, user: str, what: str) -> str:
        times = self._times[user, what]
        return f"{user}: {what}" + ("" if times == 1 else f" ({times:,} times)")


class Faults:
    """Counts by what was handled what went wrong inside ttmem: that is set aside, and everything else goes on."""

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
