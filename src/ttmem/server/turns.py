"""Whose turn it is: the open connections of each user, and those that wait to be served."""

from __future__ import annotations

import select
from collections import OrderedDict

from ttmem.fast_dataclasses import dataclass, field
from ttmem.sources.socket.peer import Peer


@dataclass(slots=True, eq=False)
class User:
    """The connections of one user, and what they use."""

    uid: int
    querying: OrderedDict[Connection, None] = field(default_factory=OrderedDict)  # idlest first
    reporting: OrderedDict[Connection, None] = field(default_factory=OrderedDict)
    unread: int = 0
    unfinished: int = 0
    held: set[Connection] = field(default_factory=set)  # not read while too many answers are unread

    @property
    def count(self) -> int:
        return len(self.querying) + len(self.reporting)


@dataclass(slots=True, eq=False)
class Connection:
    """A peer and the loop's state for it."""

    peer: Peer
    user: User
    number: int  # its descriptor
    mask: int = select.EPOLLIN
    unread: int = 0  # as charged to its user
    unfinished: int = 0
    sent_before: int | None = None  # bytes at the last check, while its user has too much unread


class WaitingConnections:
    """Connections waiting to be served. Users take turns, and so do the connections of each user.

    Unless they are served `one_by_one`: then those of a user wait until the first is done.
    """

    def __init__(self, one_by_one: bool = False) -> None:
        self._one_by_one = one_by_one
        self._users: OrderedDict[int, OrderedDict[Connection, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._users)

    def add(self, connection: Connection) -> None:
        """Appends it, unless it is waiting already."""
        uid = connection.user.uid
        waiting = self._users.get(uid)
        if waiting is None:
            self._users[uid] = waiting = OrderedDict()
        waiting[connection] = None

    def again(self, connection: Connection) -> None:
        """After a turn that was too short."""
        self.add(connection)
        if self._one_by_one:
            self._users[connection.user.uid].move_to_end(connection, last=False)

    def drop(self, connection: Connection) -> None:
        waiting = self._users.get(connection.user.uid)
        if waiting is not None:
            waiting.pop(connection, None)
            if not waiting:
                del self._users[connection.user.uid]

    def next(self) -> Connection:
        """Removes and returns the connection whose turn it is."""
        uid, waiting = next(iter(self._users.items()))
        connection, _ = waiting.popitem(last=False)
        if waiting:
            self._users.move_to_end(uid)
        else:
            del self._users[uid]
        return connection
