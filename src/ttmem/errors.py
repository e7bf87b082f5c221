"""All errors of ttmem. Only `main()` prints them; each says what to do next."""

from __future__ import annotations


class TtmemError(Exception):
    """Base class of all errors that ttmem raises."""

    exit_code = 1  # of the command line


class BadInput(TtmemError):
    """An argument or a file cannot be used."""

    exit_code = 2


class NoServer(TtmemError):
    """No server answers at the socket, or there is nothing else to read."""

    exit_code = 3


class NothingToRead(NoServer):
    """There is neither a server nor a region."""

    idle = "nothing is running on a Tenstorrent device"
    advice = "try `ttmem run -- python model.py`, or `ttmem demo`, which needs no card"

    @classmethod
    def because(cls, why: str) -> NothingToRead:
        return cls(f"{cls.idle}: {why}; {cls.advice}")


class ClosedToYou(TtmemError):
    """There is a server, but this user may not use its socket."""


class NotTrusted(ClosedToYou):
    """The server belongs to another user, and its socket was not named explicitly."""


class Refused(TtmemError):
    """The other side refused, and said why."""

    exit_code = 4
