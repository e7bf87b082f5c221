"""The open connections: accepts and serves them, and limits what those of one user may use."""

from __future__ import annotations

import os
import resource
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from ttmem.errors import TtmemError
from ttmem.ledger import Books
from ttmem.procfs import peer_credentials, user_title
from ttmem.server.log import Log
from ttmem.server.turns import Connection, User, WaitingConnections
from ttmem.sources.socket.listener import Listener
from ttmem.sources.socket.peer import RECEIVE, Peer, Receiver
from ttmem.wire import frames

SLICE = (
    0.002  # seconds for connections that end, then for those that query, then for those that report
)
# Seconds between two polls of the reporting connections while some are being served.
POLL_PERIOD = 0.01
STEP = 0.001  # seconds for the queries of one connection before the next has its turn
SMALL_RECEIVE = 16 << 10  # bytes at a time from a connection that queries, or has not reported yet
ACCEPTS_PER_TURN = 64
SPARE_FILES = 64
MAX_OF_A_USER = 4096  # connections
MAX_UNREAD = 32 << 20  # bytes of answers that one user's connections may leave unread
MAX_UNFINISHED = 8 << 20  # bytes of incomplete frames from one user's connections
# A connection must read this many bytes in this many seconds while its user has too much unread; even a busy machine
# can do that.
LEAST_READ, READ_PERIOD = 256 << 10, 4


def keep_freed_memory(mebibytes: int = 4) -> None:
    """Lets glibc reuse receive buffers instead of returning them to the kernel, which costs page faults.

    Freeing a large block once, of at most 31 MiB, raises its thresholds for that: mmap to its size, trim to twice that.
    With one client it makes up to 204 or 130 ns of CPU time per event.
    """
    bytes(mebibytes << 20)


def _most_connections() -> int:
    """Raises the limit of open files as far as the system allows; a peer may need two, its socket and its pidfd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65_536) if hard != resource.RLIM_INFINITY else 65_536
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return max(8, (soft - SPARE_FILES) // 2)


class Connections:
    """Accepts connections and serves them in turns.

    Reporting connections queue separately, so that queries need not wait for all of them. If a user has too many
    connections, or a new one needs the place of another, the idlest is closed. Root and the server's own user have no
    limit. `forget` is told of each connection that is closed.
    """

    def __init__(
        self,
        listener: Listener,
        sink: Receiver,
        forget: Callable[[Peer], None],
        books: Books,
        log: Log,
    ) -> None:
        self._listener = listener
        self._sink, self._forget = sink, forget
        self._omissions, self._log = books.omissions, log
        self._trusted = {0, os.geteuid()}
        keep_freed_memory()
        self.most = _most_connections()
        self._of_a_user = min(MAX_OF_A_USER, max(1, self.most // 2))
        self._open: dict[int, Connection] = {}
        self._users: dict[int, User] = {}
        self._over: set[User] = set()  # with too much unread
        self._quiet: dict[Connection, float] = {}
        self._epoll = select.epoll()
        self._reports = select.epoll()
        self._reports_number = self._reports.fileno()
        self._next_poll = 0.0
        self._reports_ready = False
        self._queried, self._reported = WaitingConnections(), WaitingConnections()
        # So that at most one of a user's holds data that was received and not handled.
        self._ending = WaitingConnections(one_by_one=True)
        self._ticks = 0
        self._listening = False
        self.watch(self._reports_number)
        self._listen()

    def __len__(self) -> int:
        return len(self._open)

    # -- called by the loop ------------------------------------------------------------------------------------

    def watch(self, number: int) -> None:
        """Lets `wait` wait for another descriptor, too."""
        self._epoll.register(number, select.EPOLLIN)

    def unwatch(self, number: int) -> None:
        with suppress(OSError):
            self._epoll.unregister(number)

    def wait(self, until: float) -> list[int]:
        """Waits until something is ready, or that time; returns the watched descriptors that are ready."""
        seconds = (
            0.0
            if self._queried or self._reported or self._ending
            else max(0.0, min([until, *self._quiet.values()]) - monotonic())
        )
        others, accept = [], False
        for number, mask in self._epoll.poll(seconds):
            connection = self._open.get(number)
            if connection is not None:
                self._guarded(connection, self._ready, connection, mask)
            elif number == self._listener.socket.fileno():
                accept = True
            elif number == self._reports_number:
                self._reports_ready = True
            else:
                others.append(number)
        if accept:  # last: a new connection may get the number of a closed one that was found ready
            self._accept()
        return others

    def serve(self) -> None:
        """Serves connections that end for a while, then those that query, then those that report."""
        self._serve(self._ending)
        self._serve(self._queried)
        if self._reports_ready and (not self._reported or monotonic() >= self._next_poll):
            for number, mask in self._reports.poll(0):
                connection = self._open[number]  # closed ones are not registered any more
                self._guarded(connection, self._ready, connection, mask)
            self._next_poll = monotonic() + POLL_PERIOD
        self._reports_ready = False
        self._serve(self._reported)
        if self._quiet:
            now = monotonic()
            for connection in [each for each, due in self._quiet.items() if due <= now]:
                del self._quiet[connection]
                self._guarded(connection, self._silent, connection)

    def tick(self) -> None:
        """To be called once a second: checks the socket, and users who do not read their answers."""
        if self._listener.missing():
            self._restore()
        try:
            self._listener.keep_lock()
        except TtmemError as problem:
            self._log.problem("lock", f"the lock file was removed: {problem}")
        self._listen()
        self._ticks += 1
        if self._ticks % READ_PERIOD == 0:
            for user in tuple(self._over):
                self._urge(user)

    def move(self, peer: Peer, *, reporting: bool) -> None:
        """Queues it with the reporting connections, or with those that query."""
        connection = self._find(peer)
        if connection is None or peer.ending or peer.reporting == reporting:
            return
        user = connection.user
        self._poll_of(connection).unregister(connection.number)
        self._turns_of(connection).drop(connection)
        (user.reporting if connection.peer.reporting else user.querying).pop(connection)
        peer.reporting = reporting
        (user.reporting if reporting else user.querying)[connection] = None
        self._poll_of(connection).register(connection.number, connection.mask)

    def settle(self, peer: Peer) -> None:
        """To be called after something was sent to a peer."""
        connection = self._find(peer)
        if connection is not None:
            self._settle(connection)

    def end(self, peer: Peer) -> None:
        """Closes a connection after what it has sent was handled, in turns."""
        connection = self._find(peer)
        if connection is not None and not peer.ending:
            self._poll_of(connection).unregister(
                connection.number
            )  # it would report the end for ever
            self._turns_of(connection).drop(connection)
            connection.user.held.discard(connection)
            self._quiet.pop(connection, None)
            peer.end()
            self._ending.add(connection)

    def resume(self, peer: Peer) -> None:
        """Goes on with a connection that was paused."""
        peer.paused = False
        connection = self._find(peer)
        if connection is not None:
            self._turns_of(connection).add(connection)
            self._settle(connection)

    def close(self) -> None:
        for connection in self._open.values():
            connection.peer.socket.close()
        self._listener.close()
        self._epoll.close()
        self._reports.close()

    # -- one connection ----------------------------------------------------------------------------------------

    def _find(self, peer: Peer) -> Connection | None:
        connection = self._open.get(peer.socket.fileno())
        return connection if connection is not None and connection.peer is peer else None

    def _serve(self, turns: WaitingConnections) -> None:
        now = monotonic()
        end = now + SLICE
        while turns and now < end:
            connection = turns.next()
            self._guarded(connection, self._step, connection, now)
            now = monotonic()

    def _ready(self, connection: Connection, mask: int) -> None:
        peer = connection.peer
        if mask & (select.EPOLLHUP | select.EPOLLERR):
            peer.hung_up()
        elif mask & select.EPOLLOUT:
            peer.writable()
        if mask & ~select.EPOLLOUT or peer.busy:
            self._turns_of(connection).add(connection)
        if mask != select.EPOLLIN:
            self._settle(connection)

    def _step(self, connection: Connection, now: float) -> None:
        peer = connection.peer
        if peer.ending:
            peer.take_rest(now + STEP)
            full = not (peer.paused or peer.closed)
        elif peer.reporting:
            full = peer.readable(RECEIVE, now + STEP) == RECEIVE
        elif connection.user in self._over and not peer.deaf:
            connection.user.held.add(connection)
            full = False
        else:
            connection.user.querying.move_to_end(connection)
            full = peer.readable(SMALL_RECEIVE, now + STEP) == SMALL_RECEIVE
        if full or peer.busy:  # there may be more, so no poll is needed
            self._turns_of(connection).again(connection)
        if (patience := peer.patience) is not None and not peer.ending:
            self._quiet[connection] = monotonic() + patience
        elif self._quiet:
            self._quiet.pop(connection, None)
        self._settle(connection)

    def _silent(self, connection: Connection) -> None:
        connection.peer.quiet()
        self._settle(connection)

    def _settle(self, connection: Connection) -> None:
        """Updates the loop's state and the user's charges after the peer has changed."""
        peer = connection.peer
        same = peer.unread == connection.unread and peer.unfinished == connection.unfinished
        if same and not (peer.unread or peer.closed) and connection.mask == select.EPOLLIN:
            return
        if not peer.closed:
            self._charge(connection)
        if peer.closed:
            self._drop(connection)
            return
        reads = peer.wants_read and connection not in connection.user.held
        mask = (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if peer.wants_write else 0)
        if mask != connection.mask and not peer.ending:
            connection.mask = mask
            self._poll_of(connection).modify(connection.number, mask)

    def _drop(self, connection: Connection) -> None:
        if self._open.pop(connection.number, None) is None:
            return
        user = connection.user
        self._quiet.pop(connection, None)
        self._turns_of(connection).drop(connection)
        if not connection.peer.ending:
            self._poll_of(connection).unregister(connection.number)
        (user.reporting if connection.peer.reporting else user.querying).pop(connection)
        user.held.discard(connection)
        user.unfinished -= connection.unfinished
        user.unread -= connection.unread
        self._weigh(user)
        if not user.count:
            del self._users[user.uid]
        self._forget(connection.peer)

    def _poll_of(self, connection: Connection) -> select.epoll:
        return self._reports if connection.peer.reporting else self._epoll

    def _turns_of(self, connection: Connection) -> WaitingConnections:
        if connection.peer.ending:
            return self._ending
        return self._reported if connection.peer.reporting else self._queried

    def _guarded(self, connection: Connection, act: Callable[..., None], *given: object) -> None:
        """Closes a connection whose input cannot be handled; everything else goes on."""
        try:
            act(*given)
        except Exception as problem:
            self._fault(connection.peer, problem)
            connection.peer.close()
            try:
                self._drop(connection)
            except Exception as another:
                self._fault(connection.peer, another)

    def _fault(self, peer: Peer, problem: Exception) -> None:
        self._omissions.fault(f"a connection of pid {peer.pid}, {peer.protocol}", problem)

    # -- limits of a user --------------------------------------------------------------------------------------

    def _charge(self, connection: Connection) -> None:
        peer, user = connection.peer, connection.user
        user.unfinished += peer.unfinished - connection.unfinished
        connection.unfinished = peer.unfinished
        if user.unfinished > MAX_UNFINISHED and connection.unfinished:
            self._omissions.limit(
                user_title(user.uid), "a connection was closed: too many frames are incomplete"
            )
            peer.evict(
                f"the connections of uid {user.uid} have sent {MAX_UNFINISHED >> 20} MiB of incomplete frames;"
                " complete them"
            )
        user.unread += peer.unread - connection.unread
        connection.unread = peer.unread
        self._weigh(user)

    def _weigh(self, user: User) -> None:
        if user.unread > MAX_UNREAD:
            self._over.add(user)
        elif user in self._over:
            self._over.discard(user)
            held, user.held = user.held, set()
            for connection in (*user.querying, *user.reporting):
                connection.sent_before = None
            for connection in held:
                self._turns_of(connection).add(connection)
                self._settle(connection)

    def _urge(self, user: User) -> None:
        """Closes slow readers, those with most unread first, until the user is below the limit."""
        waiting = [each for each in (*user.querying, *user.reporting) if each.unread]
        for connection in sorted(waiting, key=lambda each: each.unread, reverse=True):
            before, connection.sent_before = connection.sent_before, connection.peer.sent
            slow = before is not None and connection.peer.sent - before < LEAST_READ
            if slow and user in self._over:
                self._omissions.limit(
                    user_title(user.uid), "a connection was closed: too many answers are unread"
                )
                connection.peer.evict("")
                self._guarded(connection, self._settle, connection)

    # -- new connections ---------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self._listening:
            self._listening = True
            self.watch(self._listener.socket.fileno())

    def _restore(self) -> None:
        try:
            self._listener.restore()  # closes the old socket, which removes it from the epoll
        except TtmemError as problem:
            self._log.problem("no socket", f"clients can no longer connect: {problem}")
            return
        self._listening = False
        self._log.problem("socket", f"{self._listener.path} was removed; it has been created again")

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _ = self._listener.socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as problem:
                self._log.problem("accept", f"cannot accept a connection: {problem.strerror}")
                if not self._make_place(0):  # without a pause the loop would spin
                    self.unwatch(self._listener.socket.fileno())
                    self._listening = False
                return
            pid, uid = peer_credentials(connection)
            if self._admit(uid):
                self._add(connection, pid, uid)
            else:
                self._refuse(connection, uid)

    def _add(self, connection: socket.socket, pid: int, uid: int) -> None:
        user = self._users.get(uid)
        if user is None:
            self._users[uid] = user = User(uid)
        peer = Peer(connection, pid, uid, self._sink)
        added = Connection(peer, user, connection.fileno())
        self._open[added.number] = added
        user.querying[added] = None
        self._epoll.register(added.number, added.mask)

    def _refuse(self, connection: socket.socket, uid: int) -> None:
        self._omissions.limit(user_title(uid), "a connection was refused: too many are open")
        with suppress(OSError):
            first = connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            if first == frames.MAGIC[:1]:
                text = f"uid {uid} has reached the limit of its connections; close some"
                refusal = frames.preamble() + frames.frame(frames.Frame.REFUSED, text.encode())
                connection.send(refusal, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        connection.close()

    def _admit(self, uid: int) -> bool:
        user = self._users.get(uid)
        if user is not None and user.count >= self._of_a_user and uid not in self._trusted:
            return self._close_idlest(user, also_reporting=False)
        return len(self._open) < self.most or self._make_place(uid)

    def _make_place(self, uid: int) -> bool:
        """Closes the idlest connection of the user with most: one with a limit, if it has more than this user."""
        own = self._users[uid].count if uid in self._users else 0
        limited = [user for user in self._users.values() if user.uid not in self._trusted]
        others = [user for user in limited if uid in self._trusted or user.count > own]
        greediest = max(others or self._users.values(), key=lambda user: user.count, default=None)
        if greediest is None:
            return False
        return self._close_idlest(greediest, also_reporting=greediest in others)

    def _close_idlest(self, user: User, also_reporting: bool) -> bool:
        connection = next(iter(user.querying), None)
        if connection is None and also_reporting:
            connection = next(iter(user.reporting), None)
        if connection is None:
            return False
        self._omissions.limit(
            user_title(user.uid), "an idle connection was closed: too many are open"
        )
        connection.peer.evict(f"too many connections are open, most of them of uid {user.uid}")
        self._guarded(connection, self._settle, connection)
        return True
