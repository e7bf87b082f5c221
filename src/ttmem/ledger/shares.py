"""What one user may make the books keep, and what was refused to users who wanted more."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

from ttmem.procfs import user_name
from ttmem.snapshots import Anomaly

MOST = 64  # sorts of refusals that are told apart
MOST_USERS = 65_536  # with limits of their own; more than that share them
DEVICES = 64
ACCOUNTS = 8192  # processes times devices
TEXT = 64 << 20  # bytes of names, core sets and declarations


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


class Shares:
    """How much each user has of what there is a limit of. Root and the user who runs this have none."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._unlimited = {None, user_name(0), user_name(os.geteuid())}
        self._taken: dict[str, Counter[str | None]] = {}
        self._numbers: dict[str | None, int] = {}

    def limited(self, user: str | None) -> bool:
        """Is there a limit for that user?"""
        return user not in self._unlimited

    def number(self, user: str | None) -> int:
        """For the native ledger, which gives each numbered user half of its table; 0 has no limit."""
        if not self.limited(user):
            return 0
        return self._numbers.setdefault(user, len(self._numbers) % MOST_USERS + 1)

    def take(self, user: str | None, what: str, amount: int, most: int) -> bool:
        """False if that would be more than its share."""
        taken = self._taken.setdefault(what, Counter())
        if amount > 0 and self.limited(user) and taken[user] + amount > most:
            self.refuse(user, f"{what} were left out: it has its share of them")
            return False
        taken[user] += amount
        if not taken[user]:
            del taken[user]
        return True

    def refuse(self, user: str | None, what: str) -> None:
        """Counts and tells it."""
        self._limits.note(f"user {user}", what)
