"""The one family of errors. Only `main()` prints them; each says what to do next."""

from __future__ import annotations


class TtmemError(Exception):
    """Anything that ttmem refuses to do, with the exit code of the command line."""

    exit_code = 1


class BadInput(TtmemError):
    """An argument or a file that cannot be used."""

    exit_code = 2


class NoServer(TtmemError):
    """Nobody answers at the socket."""

    exit_code = 3


class NothingToRead(NoServer):
    """No server was asked, and there is no region."""


class ClosedToYou(TtmemError):
    """There is a server, and its socket may not be used."""


class NotTrusted(ClosedToYou):
    """There is a server, of a user whom nobody has named."""


class Refused(TtmemError):
    """The other side said no, in words."""

    exit_code = 4
