"""A client's life: the first event starts its thread, a fork begins anew, exit waits a moment."""

from __future__ import annotations

import atexit
import logging
import os
import struct
import threading
import weakref
from dataclasses import dataclass
from time import monotonic, sleep

from ttmem.client.declarations import Cores
from ttmem.client.devices import device_declarations
from ttmem.client.outbox import Outbox
from ttmem.client.sender import Sender
from ttmem.client.target_cache import Targets
from ttmem.events import DeviceDeclaration
from ttmem.wire.socket_path import named_socket

log = logging.getLogger("ttmem.client")

EXIT_TIME = 0.2  # seconds that the end of a process may take longer
_NO_CORES = (-1, -1)  # fits into no record, so the event is rejected


@dataclass(frozen=True, slots=True)
class ClientStats:
    """How a client is doing, since the process started or was forked."""

    queued: int
    sent: int
    dropped: int  # events that no server saw one by one
    overflow: int  # entries beyond the live set's limit: a server that comes later misses them
    unnamed: int  # strings and core sets beyond their limit
    resyncs: int
    connected: bool


class ClientLifecycle:
    """Owns the outbox and the thread, and knows what devices, names and cores mean."""

    def __init__(
        self, path: str | None = None, *, queue_limit: int = 262_144, live_limit: int = 1_000_000
    ) -> None:
        self._path = named_socket(path)
        self._limits = (queue_limit, live_limit)
        self._sender: Sender | None = None
        self._starting = threading.RLock()
        self._complained = self._warned = False
        self._outbox = self._new_outbox()
        _clients.add(self)

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        """Tells which board a device is and what it can hold."""
        try:
            self._outbox.declarations.declare_device(declaration)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:  # it is none
            self.reject(error)
        self._ensure_sender()
        self._outbox.waker.wake()

    def flush(self, timeout: float = 1.0) -> bool:
        """Waits until a server has been sent everything; False if that takes too long."""
        deadline = monotonic() + timeout
        while self._sender is not None and not self._outbox.drained():
            if monotonic() >= deadline:
                return False
            self._outbox.waker.wake()
            sleep(0.001)
        return True

    def close(self, timeout: float = EXIT_TIME) -> None:
        """Ends reporting; a server that listens gets what is queued, if that takes no longer."""
        deadline = monotonic() + timeout
        self._outbox.close()
        if self._sender is not None:
            while self._outbox.hopeful() and monotonic() < deadline and not self.flush(0.002):
                pass
            self._sender.stop()
            if self._sender.is_alive():
                self._sender.join(max(0.01, deadline - monotonic()))

    def stats(self) -> ClientStats:
        """What was sent, what waits, what was lost."""
        outbox = self._outbox
        return ClientStats(
            queued=outbox.queued(),
            sent=outbox.sent,
            dropped=outbox.dropped(),
            overflow=outbox.live.room.overflow,
            unnamed=outbox.declarations.missed,
            resyncs=outbox.resyncs,
            connected=outbox.connected,
        )

    def core_count(self, cores: Cores) -> int:
        """How many cores these are."""
        return self._cores(cores)[1]

    def _find_targets(self, device: object) -> Targets:
        """The devices that a report goes to, if they are not in the cache; none if it is wrong."""
        outbox = self._outbox
        known = outbox.targets.find(device)
        if known is not None or outbox.closed:
            return () if known is None else known
        try:
            for declaration in device_declarations(device):
                self.declare_device(declaration)
            targets = outbox.targets.add(device)
        except Exception as error:  # the application's object may raise anything
            self.reject(error)
            return ()
        return targets

    def _string(self, text: str) -> int:
        """The number of a name or a call site."""
        declarations = self._outbox.declarations
        try:
            return declarations.strings.get(text) or declarations.string(text)
        except TypeError as error:  # a list is no text: the event goes without
            self._complain(error)
            return 0

    def _cores(self, cores: Cores) -> tuple[int, int]:
        """(number of the core set, how many cores they are)."""
        declarations = self._outbox.declarations
        try:
            known = declarations.core_sets.get(cores)
        except TypeError:
            known = None  # a list
        try:
            return declarations.cores(cores) if known is None else known
        except (struct.error, TypeError, ValueError, LookupError) as error:
            self._complain(error)
            return _NO_CORES

    def _on_cores(self, cores: Cores, size: int) -> tuple[int, int]:
        """(number of the core set, bytes on all these cores), if they are not known yet."""
        core_set, count = self._cores(cores)
        try:
            return core_set, size * count
        except TypeError as error:
            self._complain(error)
            return _NO_CORES

    def reject(self, error: Exception) -> None:
        """An event that cannot be told is counted, and explained once."""
        self._outbox.rejected += 1
        self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.warning(
                "ttmem: an event was not reported (further ones are only counted): %s", error
            )

    def _ensure_sender(self) -> None:
        """Starts the thread; if none can be started now, a later event tries again."""
        if self._outbox.sender is not None or self._outbox.closed:
            return
        with self._starting:
            if self._sender is None or not self._sender.is_alive():
                self._sender = Sender(self._outbox, self._path)
                try:
                    self._sender.start()
                except (RuntimeError, MemoryError) as error:
                    self._warn(error)

    def _warn(self, error: BaseException) -> None:
        if not self._warned:
            self._warned = True
            log.warning("ttmem: no thread to report from can be started yet: %s", error)

    def _new_outbox(self) -> Outbox:
        myself = weakref.ref(self)  # else only the garbage collector would free a client

        def call_sender() -> None:
            client = myself()
            if client is not None:
                client._ensure_sender()

        return Outbox(*self._limits, call_sender)

    def _start_anew(self) -> None:
        """In a forked child: the memory is the parent's, and any lock may have been held."""
        if self._sender is not None:
            self._sender.abandon()
        self._sender = None
        self._starting = threading.RLock()
        self._outbox = self._new_outbox()


_clients: weakref.WeakSet[ClientLifecycle] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._start_anew()


def _at_exit() -> None:
    for client in list(_clients):
        client.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
