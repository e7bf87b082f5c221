"""A client's life: the first event starts its thread, a fork begins anew, exit waits a moment."""

from __future__ import annotations

import atexit
import logging
import os
import struct
import weakref
from dataclasses import dataclass
from time import monotonic, sleep

from ttmem.client.declarations import Cores
from ttmem.client.devices import device_declarations, device_numbers
from ttmem.client.live_set import DeviceAccount
from ttmem.client.outbox import Outbox
from ttmem.client.sender import Sender
from ttmem.client.server_socket import socket_path
from ttmem.events import DeviceDeclaration

log = logging.getLogger("ttmem.client")

UNFIT = (struct.error, KeyError, TypeError, ValueError)  # an event that fits into no record
EXIT_TIME = 0.1  # seconds that the end of a process may take longer
NO_CORES = (-1, -1)  # fits into no record, so the event is rejected


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
    """Owns the outbox and the thread, and knows which accounts a device means."""

    def __init__(
        self, path: str | None = None, *, queue_limit: int = 65_536, live_limit: int = 1_000_000
    ) -> None:
        self._path = socket_path(path)
        self._limits = (queue_limit, live_limit)
        self._outbox = Outbox(queue_limit, live_limit)
        self._sender: Sender | None = None
        self._complained = False
        _clients.add(self)

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        """Tells which board a device is and what it can hold."""
        outbox = self._outbox
        with outbox.lock:
            outbox.declarations.declare_device(declaration)
        self._ensure_sender()
        outbox.waker.wake()

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
            if self._outbox.connected:
                self.flush(timeout)
            self._sender.stop()
            self._sender.join(max(0.01, deadline - monotonic()))

    def stats(self) -> ClientStats:
        """What was sent, what waits, what was lost."""
        outbox = self._outbox
        return ClientStats(
            queued=outbox.queued(),
            sent=outbox.sent,
            dropped=outbox.dropped(),
            overflow=outbox.room.overflow,
            unnamed=outbox.declarations.missed,
            resyncs=outbox.resyncs,
            connected=outbox.connected,
        )

    def _accounts(self, device: object) -> tuple[DeviceAccount, ...]:
        """The accounts that a report about this device goes to."""
        try:
            known = self._outbox.targets.get(device)
        except TypeError:
            known = None  # a device that cannot be hashed
        return self._find_accounts(device) if known is None else known

    def _find_accounts(self, device: object) -> tuple[DeviceAccount, ...]:
        """The same, for a device that is not in the cache; nothing if it is no device."""
        outbox = self._outbox
        known = outbox.foreign.get(id(device))
        if known is not None and known[0]() is device:
            return known[1]
        if outbox.closed:
            return ()
        try:
            accounts = self._open_accounts(outbox, device)
        except Exception as error:  # the application's object may raise anything
            self._reject(error)
            return ()
        outbox.remember(device, accounts)
        return accounts

    def _open_accounts(self, outbox: Outbox, device: object) -> tuple[DeviceAccount, ...]:
        numbers = device_numbers(device)
        for declaration in device_declarations(device):
            self.declare_device(declaration)
        self._ensure_sender()
        with outbox.lock:
            return tuple(outbox.live.account(number, outbox.streaming) for number in numbers)

    def _string(self, text: str) -> int:
        """The number of a name or a call site."""
        declarations = self._outbox.declarations
        known = declarations.strings.get(text)
        if known is not None:
            return known
        with self._outbox.lock:
            return declarations.string(text)

    def _cores(self, cores: Cores) -> tuple[int, int]:
        """(number of the core set, how many cores they are)."""
        if cores is None:
            return 0, 1
        if isinstance(cores, int):
            return 0, cores
        try:
            with self._outbox.lock:
                return self._outbox.declarations.cores(cores)
        except UNFIT as error:
            self._complain(error)
            return NO_CORES

    def _reject(self, error: Exception) -> None:
        """An event that cannot be told is counted, and explained once."""
        self._outbox.reject()
        self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.warning("an event was not reported (further ones are only counted): %s", error)

    def _ensure_sender(self) -> None:
        with self._outbox.lock:
            if self._sender is None and not self._outbox.closed:
                self._sender = Sender(self._outbox, self._path)
                try:
                    self._sender.start()
                except RuntimeError:
                    pass  # the interpreter is shutting down

    def _start_anew(self) -> None:
        """In a forked child: the parent holds the memory, and its lock may have been held."""
        if self._sender is not None:
            self._sender.abandon()
        self._sender = None
        self._outbox = Outbox(*self._limits)


_clients: weakref.WeakSet[ClientLifecycle] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._start_anew()


def _at_exit() -> None:
    for client in list(_clients):
        client.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
