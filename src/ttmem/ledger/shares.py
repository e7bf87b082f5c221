"""How much each user may make the ledger keep, and what was refused."""

from __future__ import annotations

import os
from collections import Counter
from typing import Protocol

from ttmem.procfs import user_name
from ttmem.snapshots import Anomaly

MOST = 64  # faults, and kinds of refusals, that are told apart
LONGEST = 200  # characters of an error
MOST_USERS = 65_536  # with limits of their own; further ones share theirs
DEVICES = 64
ACCOUNTS = 8192  # processes times devices
TRUSTED = ""  # a key that no user has
TEXT = 64 << 20  # bytes of names, core sets and declarations


class Say(Protocol):
    """Logs a sentence, unless it repeats one with the same key, or the user has had too many lines."""

    def __call__(self, key: str, sentence: str, user: str | None = None) -> None: ...


def unlimited_users() -> frozenset[str | None]:
    """Root and the user of this process."""
    return frozenset((None, user_name(0), user_name(os.geteuid())))


class Omissions:
    """Counts and logs what was left out: inputs that could not be handled, and what limits refused."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._faults: dict[str, tuple[int, str]] = {}  # how often, and the last error
        self._limits: Counter[tuple[str, str]] = Counter()

    def fault(self, what: str, problem: Exception) -> None:
        """`what` names the connection, region or device."""
        if what not in self._faults and len(self._faults) >= MOST:
            what = "others"
        times, _ = self._faults.get(what, (0, ""))
        self._faults[what] = times + 1, f"{type(problem).__name__}: {problem}"[:LONGEST]
        self._say(f"fault/{what}", self._of_fault(what))

    def limit(self, user: str, what: str) -> None:
        """`user` is a title; `what` says what was done about it."""
        if (user, what) not in self._limits and len(self._limits) >= MOST:
            user = "other users"
            what = what if (user, what) in self._limits else "too much"
        self._limits[user, what] += 1
        self._say(f"limit/{user}/{what}", self._of_limit(user, what))

    def anomalies(self) -> list[Anomaly]:
        """For every snapshot, because something is, or may be, missing from it."""
        faults = [Anomaly("fault", self._of_fault(what)) for what in self._faults]
        return faults + [Anomaly("limit", self._of_limit(*key)) for key in self._limits]

    def _of_fault(self, what: str) -> str:
        times, last = self._faults[what]
        often = "" if times == 1 else f", {times:,} times"
        return f"ttmem could not handle {what} and leaves it out ({last}{often})"

    def _of_limit(self, user: str, what: str) -> str:
        times = self._limits[user, what]
        return f"{user}: {what}" + ("" if times == 1 else f" ({times:,} times)")


class Shares:
    """How much of each limited resource a user has taken. Root and the user of this process have no limits."""

    def __init__(self, omissions: Omissions) -> None:
        self._omissions = omissions
        self._unlimited = unlimited_users()
        self._taken: dict[str, Counter[str | None]] = {}
        self._numbers: dict[str | None, int] = {}

    def limited(self, user: str | None) -> bool:
        return user not in self._unlimited

    def key(self, user: str | None) -> str:
        """Equal for users who may not speak for each other only if they are trusted."""
        return str(user) if self.limited(user) else TRUSTED

    def number(self, user: str | None) -> int:
        """For the native ledger, which gives each numbered user half of its table; 0 has no limit."""
        if not self.limited(user):
            return 0
        return self._numbers.setdefault(user, len(self._numbers) % MOST_USERS + 1)

    def take(self, user: str | None, what: str, amount: int, most: int) -> bool:
        """False if that would exceed the user's share."""
        taken = self._taken.setdefault(what, Counter())
        if amount > 0 and self.limited(user) and taken[user] + amount > most:
            self.refuse(user, f"{what} were left out: the limit per user is reached")
            return False
        taken[user] += amount
        if not taken[user]:
            del taken[user]
        return True

    def refuse(self, user: str | None, what: str) -> None:
        """Counts and logs a refusal."""
        self._omissions.limit(f"user {user}", what)
