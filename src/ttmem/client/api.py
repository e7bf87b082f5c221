"""`AllocationClient`: one call for each thing an application can report.

A report packs one event for each device and appends it to a queue: well under a microsecond, and it never waits.
`ttmem.client.outbox` describes what happens next. The first event starts the sending thread, a forked child starts
afresh, and exit waits a moment for what is queued.
"""

from __future__ import annotations

import atexit
import logging
import os
import struct
import threading
import weakref
from time import monotonic, sleep, time_ns

from ttmem.client.declarations import Cores, content_of
from ttmem.client.devices import DeviceLike, Targets, device_declarations
from ttmem.client.outbox import Outbox
from ttmem.client.records import HIGH, WORDS, head
from ttmem.client.sender import Sender
from ttmem.clock import log_line
from ttmem.events import BinaryStatus, DeviceDeclaration, Flag, KernelType, MemoryKind, Notice, Op
from ttmem.fast_dataclasses import dataclass
from ttmem.wire.socket_path import named_socket

log = logging.getLogger("ttmem.client")

EXIT_TIME = 0.2  # seconds by which the exit of a process may be delayed
_NO_CORES = (-1, -1)  # cannot be packed, so the event is rejected
_NOT_REPORTED = "ttmem: an event was not reported (further ones are only counted): %s"
_NO_THREAD = "ttmem: no thread to report from can be started yet: %s"
_pack = WORDS.pack

# First words of records. An invalid kind is not found, or cannot be looked up; it becomes -1, which cannot be packed.
_NONE = -1
_ALLOC = {kind: head(Op.ALLOC, kind) for kind in MemoryKind}
_FREE = {kind: head(Op.FREE, kind, Flag.KIND_KNOWN) for kind in MemoryKind}
_FAILED = {kind: head(Notice.ALLOCATION_FAILED, kind) for kind in MemoryKind}
_CB_ALLOC, _CB_FREE = head(Op.CB_ALLOC), head(Op.CB_FREE)
_GLOBAL, _DATAFLOW = head(0, 0, Flag.GLOBAL), head(0, 0, Flag.DATAFLOW)
_KERNEL_LOAD = {kind: head(Op.KERNEL_LOAD, kind) for kind in KernelType}
_KERNEL_UNLOAD = head(Op.KERNEL_UNLOAD)
_DISPATCH = {
    None: head(Op.PROGRAM_DISPATCH),
    True: head(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_HIT),
    False: head(Op.PROGRAM_DISPATCH, 0, Flag.CACHE_MISS),
}
_DESTROY = head(Op.PROGRAM_DESTROY)
_STATUS = {status: head(Op.BINARY_STATUS, status) for status in BinaryStatus}
_RING, _CACHE_ENTRIES = head(Op.RING), head(Op.CACHE_ENTRIES)


@dataclass(frozen=True, slots=True)
class ClientStats:
    """The counters of a client since the process started or was forked."""

    queued: int
    sent: int
    dropped: int  # events that no server received individually
    overflow: int  # entries beyond `live_limit`, which a server that starts later will miss
    unnamed: int  # strings and core sets beyond their limit
    resyncs: int
    connected: bool


class AllocationClient:
    """Reports to the server at a Unix socket, as soon as there is one. Thread-safe.

    `path`: the socket; default TTMEM_SOCKET, else the path of the original system.
    `queue_limit`: how many events may wait for a slow server.
    `live_limit`: how many live entries are kept for a server that starts later.

    A device is a number, a `Device`, a `MeshDevice` or a similar object; a mesh stands for each of its chips.
    No report raises: an invalid one is counted as dropped, and the first is explained in the log.
    """

    def __init__(
        self, path: str | None = None, *, queue_limit: int = 262_144, live_limit: int = 1_000_000
    ) -> None:
        self._path = named_socket(path)
        self._limits = (queue_limit, live_limit)
        self._sender: Sender | None = None
        self._starting = threading.RLock()
        self._said: set[str] = set()
        self._outbox = self._new_outbox()
        _clients.add(self)

    def declare_device(self, declaration: DeviceDeclaration) -> None:
        """Describes the board and capacities of a device."""
        try:
            self._outbox.declarations.declare_device(declaration)
        except (
            AttributeError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:  # not a declaration
            self.reject(error)
        self._ensure_sender()
        self._outbox.waker.wake()

    def flush(self, timeout: float = 1.0) -> bool:
        """Waits until everything has been sent to a server; False if that takes too long."""
        deadline = monotonic() + timeout
        while self._sender is not None and not self._outbox.drained():
            if monotonic() >= deadline:
                return False
            self._outbox.waker.wake()
            sleep(0.001)
        return True

    def close(self, timeout: float = EXIT_TIME) -> None:
        """Ends reporting. A connected server still gets what is queued, within `timeout` seconds."""
        deadline = monotonic() + timeout
        self._outbox.close()
        if self._sender is not None:
            while self._outbox.hopeful() and monotonic() < deadline and not self.flush(0.002):
                pass
            self._sender.stop()
            if self._sender.is_alive():
                self._sender.join(max(0.01, deadline - monotonic()))

    def stats(self) -> ClientStats:
        outbox = self._outbox
        return ClientStats(
            queued=outbox.queued(),
            sent=outbox.sent,
            dropped=outbox.dropped(),
            overflow=outbox.live.limit.overflow,
            unnamed=outbox.declarations.missed,
            resyncs=outbox.resyncs,
            connected=outbox.connected,
        )

    def report_allocation(
        self,
        device: DeviceLike,
        buffer_id: int,
        size: int,
        kind: MemoryKind = MemoryKind.DRAM,
        address: int = 0,
        reserved: int = 0,
        site: str | None = None,
    ) -> None:
        names = 0 if site is None else self._string(site) << HIGH
        try:
            first = _ALLOC.get(kind, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, buffer_id, size, reserved, address, 1, names)

    def report_deallocation(
        self, device: DeviceLike, buffer_id: int, kind: MemoryKind = MemoryKind.DRAM, size: int = 0
    ) -> None:
        try:
            first = _FREE.get(kind, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, buffer_id, size, 0, 0, 1)

    def report_cb_allocation(
        self,
        device: DeviceLike,
        address: int,
        size: int,
        cores: Cores = None,
        is_global: bool = False,
        program_id: int = 0,
        dataflow: bool = False,
    ) -> None:
        """`size` is in bytes per core, or in total if the cores are unknown."""
        try:
            core_set, count = self._outbox.declarations.core_sets[cores]
            total = size * count
        except (KeyError, TypeError):
            core_set, total = self._on_cores(cores, size)
        first = _CB_ALLOC | (_GLOBAL if is_global else 0) | (_DATAFLOW if dataflow else 0)
        self._report(device, first, address, total, program_id, address, 1 | core_set << HIGH)

    def report_cb_deallocation(
        self,
        device: DeviceLike,
        address: int,
        size: int,
        cores: Cores = None,
        program_id: int = 0,
        dataflow: bool = False,
    ) -> None:
        """Frees the latest circular buffer with that address and size (and program)."""
        try:
            core_set, count = self._outbox.declarations.core_sets[cores]
            total = size * count
        except (KeyError, TypeError):
            core_set, total = self._on_cores(cores, size)
        first = _CB_FREE | (_DATAFLOW if dataflow else 0)
        self._report(device, first, address, total, program_id, address, 1 | core_set << HIGH)

    def report_kernel_load(
        self,
        device: DeviceLike,
        kernel_id: int,
        size: int,
        kernel_type: KernelType = KernelType.APPLICATION,
        num_cores: int = 1,
        program_id: int | None = None,
        name: str | None = None,
        content_id: int = 0,
        cores: Cores = None,
    ) -> None:
        """`size` is that of the binary. A load of a kernel that is already loaded counts as a dispatch."""
        core_set, count = self._cores(num_cores if cores is None else cores)
        program = kernel_id if program_id is None else program_id
        names = 0 if name is None else self._string(name)
        try:
            if content_id == 0 and name is not None:
                content_id = content_of(name, size)
            first = _KERNEL_LOAD.get(kernel_type, _NONE)
        except TypeError:
            first = _NONE
        word = count | core_set << HIGH
        self._report(device, first, kernel_id, size, program, content_id, word, names)

    def report_kernel_unload(self, device: DeviceLike, kernel_id: int) -> None:
        self._report(device, _KERNEL_UNLOAD, kernel_id)

    def report_program_dispatch(
        self,
        device: DeviceLike,
        program_id: int,
        cache_hit: bool | None = None,
        cores: Cores = None,
    ) -> None:
        """`cache_hit` is None if unknown."""
        word = 0 if cores is None else self._cores(cores)[0] << HIGH
        try:
            first = _DISPATCH.get(cache_hit, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, program_id, 0, 0, 0, word)

    def report_program_destroy(self, device: DeviceLike, program_id: int) -> None:
        """The program is gone, along with its kernels and circular buffers."""
        self._report(device, _DESTROY, program_id)

    def report_binary_status(
        self, device: DeviceLike, program_id: int, status: BinaryStatus
    ) -> None:
        try:
            first = _STATUS.get(status, _NONE)
        except TypeError:
            first = _NONE
        self._report(device, first, program_id)

    def report_failed_allocation(
        self,
        device: DeviceLike,
        kind: MemoryKind,
        size: int,
        message: str,
        site: str | None = None,
        program_id: int = 0,
    ) -> None:
        """`message` is the runtime's. Only the server of `ttmem simulate -o` believes it; others reject it."""
        names = 0 if site is None else self._string(site) << HIGH
        told = self._string(message) << HIGH
        self._report(device, _FAILED.get(kind, _NONE), 0, size, program_id, 0, told, names)

    def report_ring(
        self,
        device: DeviceLike,
        occupied: int,
        wraps: int,
        syncs: int,
        capacity: int = 0,
        programs: int = 0,
    ) -> None:
        """The state of the kernel-config ring, in bytes for the whole device."""
        self._report(device, _RING, occupied, capacity, wraps, syncs, programs)

    def report_cache_entries(self, device: DeviceLike, entries: int) -> None:
        """The number of programs in the program cache."""
        self._report(device, _CACHE_ENTRIES, 0, entries)

    def _report(
        self,
        device: DeviceLike,
        first: int,
        number: int,
        size: int = 0,
        extra: int = 0,
        address: int = 0,
        count_and_cores: int = 0,
        names: int = 0,
    ) -> None:
        """Queues one event for each device."""
        outbox = self._outbox
        try:
            targets = outbox.targets.get(device)
        except TypeError:  # an object that cannot be hashed
            targets = None
        if targets is None:
            targets = self._find_targets(device)
        queue, now = outbox.queue, -1
        try:
            now = time_ns()
            if targets.__class__ is int:
                queue.append(
                    _pack(
                        targets | first, now, number, size, extra, address, count_and_cores, names
                    )
                )
            else:
                records = []
                for bits in targets:  # type: ignore[union-attr]
                    records.append(
                        _pack(
                            bits | first, now, number, size, extra, address, count_and_cores, names
                        )
                    )
                queue += records  # all or none, even if a signal interrupts this call
        # Nothing broader: what a signal handler raises must pass through.
        except (struct.error, OverflowError) as error:
            if now < 0:
                self._report_without_time(
                    targets, first, number, size, extra, address, count_and_cores, names
                )
            else:
                self.reject(error)
        if len(queue) >= outbox.mark:
            outbox.marked()

    def _report_without_time(self, targets: Targets, first: int, *words: int) -> None:
        """For a clock set before 1970 or after 2262: the server uses its own."""
        try:
            each = (targets,) if isinstance(targets, int) else targets
            self._outbox.queue += [_pack(bits | first, 0, *words) for bits in each]
        except struct.error as error:
            self.reject(error)

    def core_count(self, cores: Cores) -> int:
        return self._cores(cores)[1]

    def _find_targets(self, device: object) -> Targets:
        """The devices a report goes to, if they are not in the cache; () if it is not a device."""
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
        declarations = self._outbox.declarations
        try:
            return declarations.strings.get(text) or declarations.string(text)
        except TypeError as error:  # not a string: the event is sent without it
            self._say_once(_NOT_REPORTED, error)
            return 0

    def _cores(self, cores: Cores) -> tuple[int, int]:
        """(number of the core set, number of cores)."""
        declarations = self._outbox.declarations
        try:
            known = declarations.core_sets.get(cores)
        except TypeError:
            known = None  # a list
        try:
            return declarations.cores(cores) if known is None else known
        except (struct.error, TypeError, ValueError, LookupError) as error:
            self._say_once(_NOT_REPORTED, error)
            return _NO_CORES

    def _on_cores(self, cores: Cores, size: int) -> tuple[int, int]:
        """(number of the core set, bytes on all its cores), for cores not seen before."""
        core_set, count = self._cores(cores)
        try:
            return core_set, size * count
        except TypeError as error:
            self._say_once(_NOT_REPORTED, error)
            return _NO_CORES

    def reject(self, error: Exception) -> None:
        """Counts an event that cannot be reported, and explains the first one."""
        self._outbox.rejected += 1
        self._say_once(_NOT_REPORTED, error)

    def _say_once(self, words: str, error: BaseException) -> None:
        if words not in self._said:
            self._said.add(words)
            log_line(log.warning, words, error)

    def _ensure_sender(self) -> None:
        """Starts the thread; if that is impossible now, a later event tries again."""
        if self._outbox.sender is not None or self._outbox.closed:
            return
        with self._starting:
            if self._sender is None or not self._sender.is_alive():
                self._sender = Sender(self._outbox, self._path)
                try:
                    self._sender.start()
                except (RuntimeError, MemoryError) as error:
                    self._say_once(_NO_THREAD, error)

    def _new_outbox(self) -> Outbox:
        myself = weakref.ref(self)  # a strong reference would leave clients to the cycle collector

        def call_sender() -> None:
            client = myself()
            if client is not None:
                client._ensure_sender()

        return Outbox(*self._limits, call_sender)

    def _start_anew(self) -> None:
        """In a forked child: the memory is the parent's, and any lock may be held for ever."""
        if self._sender is not None:
            self._sender.abandon()
        self._sender = None
        self._starting = threading.RLock()
        self._outbox = self._new_outbox()


_clients: weakref.WeakSet[AllocationClient] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._start_anew()


def _at_exit() -> None:
    for client in list(_clients):
        client.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
