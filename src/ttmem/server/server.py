"""The server: one thread, one epoll loop, every connection non-blocking."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec

from ttmem.clock import now_ns
from ttmem.events import DeviceDeclaration, Remark
from ttmem.hw.umd import Discovery
from ttmem.ledger import Books, ProcessRecord
from ttmem.ledger.anomalies import failures_in
from ttmem.ledger.register import DeviceDefaults
from ttmem.procfs import LARGEST_PID, runs_another_program, user_name
from ttmem.server.answers import Answers
from ttmem.server.connections import Connections
from ttmem.server.log import EventLines, Log, Output, released, summary
from ttmem.server.processes import ProcessTable, has_ended, name_in
from ttmem.server.recordings import ServerRecordings
from ttmem.server.watchers import CounterWatcher, ProbeRegionWatcher
from ttmem.sources.socket.listener import Listener
from ttmem.sources.socket.peer import Peer
from ttmem.version import __version__
from ttmem.wire import frames
from ttmem.wire.frames import Frame
from ttmem.wire.historical import Head

P = ParamSpec("P")
TICK = 1.0
TRIM_PERIOD = 60  # ticks until memory that a burst left unused is returned
LAST_PATIENCE = 0.3  # seconds to write pending output, and then the log, when the server stops


class Server:
    """Owns the books and the loop, and is the sink of every peer.

    `shm` is the directory with the counters of stock ttnn, `probes` the one with the regions of the probe; None: none.
    Event lines and dumps go to the descriptor `stdout`. `log` is the output behind the log, which the server closes.
    `discovery` asks the user-mode driver which chips there are. `believes_failures` is for clients of the server's own:
    others could claim that an allocation failed.
    """

    def __init__(
        self,
        socket_path: str,
        *,
        group: str | None = None,
        shm: str | None = None,
        discovery: Discovery | None = None,
        probes: str | None = None,
        defaults: DeviceDefaults | None = None,
        log_events: bool = False,
        log_dispatches: bool = False,
        summary_period: float | None = None,
        max_live: int = 4_000_000,
        believes_failures: bool = False,
        stdout: int | None = None,
        log: Output | None = None,
    ) -> None:
        self._log = Log()
        self._log_output = log or Output(None)
        listener = Listener(socket_path, group)
        self._path = socket_path
        self._started = now_ns()
        self.books = Books(defaults, self._log.problem, max_live)
        self._believes_failures = believes_failures
        self._shm = shm
        self._discovery = discovery
        self._counter_watcher: CounterWatcher | None = None
        self._probes = probes
        self._probe_watcher: ProbeRegionWatcher | None = None
        self._probe_remarks: tuple[Remark, ...] = ()
        self._output = Output(stdout)
        self._answers = Answers(
            self.books, socket_path, self._started, self._output, shm, self._log.info
        )
        self._event_lines: EventLines | None = None
        if log_events:
            self._event_lines = EventLines(self.books, self._started, self._output, log_dispatches)
        self._summary_period = summary_period or float("inf")
        self._next_summary = time.monotonic() + self._summary_period
        self._connections = Connections(listener, self, self.forget_peer, self.books, self._log)
        self.recordings = ServerRecordings(
            self.books, self._answers.host, self._log, self._connections.settle, self._wake_up
        )
        self._processes = ProcessTable(self.books, self._connections.most)
        self._dying: set[int] = set()
        # By a connection that is being read to its end: what follows.
        self._afterwards: dict[Peer, list[Callable[[], object]]] = {}
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._connections.watch(self._wake.fileno())
        self._stopping = False
        self._summary_wanted = False
        self._ticks = 0

    # -- the loop ------------------------------------------------------------------------------------------------

    def run(
        self,
        ready: Callable[[], None] = lambda: None,
        each_second: Callable[[], None] = lambda: None,
    ) -> None:
        """Serves until SIGTERM or SIGINT, or `stop`."""
        self._log.info(f"ttmem {__version__} listens at {self._path} (pid {os.getpid()})")
        ready()
        if self._shm is not None:
            self._counter_watcher = CounterWatcher(self._shm, self._wake_up, self._discovery)
        if self._probes is not None:
            self._probe_watcher = ProbeRegionWatcher(self._probes, self._wake_up)
        next_tick = time.monotonic() + TICK
        try:
            while not self._stopping:
                self._turn(next_tick)
                now = time.monotonic()
                if now >= next_tick:
                    next_tick = max(next_tick + TICK, now)
                    self._tick()
                    self._guarded("what runs beside the server", each_second)
            self._guarded("the summary", self._log_summary)
        finally:
            self.close()

    def handle_signals(self) -> None:
        """Clean shutdown on SIGTERM and SIGINT, a summary on SIGUSR1; nothing runs inside the handlers."""
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "_summary_wanted", True))

    @property
    def connected(self) -> int:
        """How many connections there are; safe from any thread."""
        return len(self._connections)

    def stop(self) -> None:
        """Ends the loop; safe from any thread."""
        self._stopping = True
        self._wake_up()

    def _wake_up(self) -> None:
        with suppress(OSError):
            self._waker.send(b"\0")

    def _turn(self, next_tick: float) -> None:
        for number in self._connections.wait(min(next_tick, self._next_summary)):
            if number == self._wake.fileno():
                with suppress(OSError):
                    self._wake.recv(4096)
            else:
                self._guarded("the end of a process", self._ended, number)
        self._connections.serve()
        if self._probe_watcher is not None:
            self._guarded("the probe's regions", self._take_probes, self._probe_watcher)
        if self._counter_watcher is not None:
            self._guarded("the counters of stock ttnn", self._take_counters, self._counter_watcher)
        if self._summary_wanted or time.monotonic() >= self._next_summary:
            self._summary_wanted = False
            self._next_summary = time.monotonic() + self._summary_period
            self._guarded("the summary", self._log_summary)
        self._guarded("those who record", self.recordings.stream.send)
        self._output.flush()

    def _guarded(
        self, what: str, act: Callable[P, object], *given: P.args, **named: P.kwargs
    ) -> None:
        """No input may end the loop: an exception becomes a remark."""
        try:
            act(*given, **named)
        except Exception as problem:
            self.books.omissions.fault(what, problem)

    def _take_counters(self, watcher: CounterWatcher) -> None:
        reading = watcher.take()
        if reading is not None:
            remarks = (*reading.remarks, *self._probe_remarks)
            self.books.sample(reading.devices, remarks, now_ns())
            self.recordings.stream.tick(now_ns())

    def _log_summary(self) -> None:
        snapshot, live = self.books.snapshot(now_ns()), self.books.native.live()
        lost = self._output.dropped + self._log_output.dropped
        for sentence in summary(snapshot, len(self._connections), live, lost):
            self._log.info(sentence)

    def _take_probes(self, watcher: ProbeRegionWatcher) -> None:
        reading = watcher.take()
        if reading is None:
            return
        self._probe_remarks = reading.remarks
        ended = self.books.probed.take(reading.news, now_ns(), reading.killed)
        for process, left in ended:
            sentence = f"{process.title} ended; released {released(left)}"
            self._log.info(sentence, process.facts.user)
        watcher.rebuild(self.books.probed.doubted())
        watcher.set_aside(self.books.probed.take_faulty())

    def _tick(self) -> None:
        self._guarded("the samples of this second", self.books.tick, now_ns())
        self._guarded("the recording", self.recordings.tick, now_ns())
        self._guarded("those who record", self.recordings.stream.tick, now_ns())
        self._log.tick()
        self._output.report_losses("standard output", self._log.problem)
        self._log_output.report_losses("the log", self._log.problem)
        self._guarded("the socket", self._connections.tick)
        for process in self._processes.gone():
            self._guarded(f"the end of {process.title}", self._died, process)
        self._guarded("asking clients to resend", self._ask_to_resend)
        self._ticks += 1
        if self._ticks % TRIM_PERIOD == 0:
            self.books.native.trim()

    def _ask_to_resend(self) -> None:
        for peer in self._processes.ask_to_resend():
            self._connections.settle(peer)

    def forget_peer(self, peer: Peer) -> None:
        """Closes a connection. Its process keeps what it holds, and is forgotten if it holds nothing."""
        account = self._processes.detach(peer)
        self.recordings.stream.forget(peer)
        peer.socket.close()
        if account is not None:
            process = account.part_of or account
            if account.connections == 0 and process.index not in self._dying:
                self._forget_if_empty(process, account)
        for act in self._afterwards.pop(peer, ()):
            self._guarded(f"the end of a connection of pid {peer.pid}", act)

    def _forget_if_empty(self, process: ProcessRecord, account: ProcessRecord) -> None:
        if process.pid == 0 or runs_another_program(process.facts):
            self._died(process)
        elif self.books.live(process) == 0 and not self._processes.connected(process):
            self._release(process)
        elif account is not process and self.books.live(account) == 0:
            self.books.close_account(account)

    # -- death ---------------------------------------------------------------------------------------------------

    def _ended(self, handle: int) -> None:
        """Handles a pidfd that was found ready; its number may belong to another file by now."""
        process = self._processes.owner(handle)
        if process is None:
            self._connections.unwatch(handle)
        elif has_ended(handle):
            self._died(process)

    def _died(self, process: ProcessRecord) -> None:
        """Releases everything that a dead process held, after what it had sent is accounted."""
        if process.index not in self._dying:
            self._dying.add(process.index)
            self._retire(process)
            self._after_the_rest(
                self._processes.peers(process), partial(self._release_dead, process)
            )

    def _release_dead(self, process: ProcessRecord) -> None:
        self._dying.discard(process.index)
        rows = self.books.rows_of(process)
        left = self.books.release(process, now_ns())
        if left is not None or rows:
            sentence = f"{process.title} ended; released {released(left, rows)}"
            self._log.info(sentence, process.facts.user)
        if rows and self._event_lines is not None:
            self._event_lines.died(process.pid, rows)

    def _after_the_rest(self, peers: list[Peer], act: Callable[[], object]) -> None:
        """Does something once these connections have been read to their end, in turns, and closed."""
        left = set(peers)

        def one_less(peer: Peer) -> None:
            left.discard(peer)
            if not left:
                act()

        for peer in peers:
            self._connections.end(peer)
            self._afterwards.setdefault(peer, []).append(partial(one_less, peer))
        if not peers:
            act()

    def _release(self, process: ProcessRecord) -> None:
        self._retire(process)
        self.books.release(process, now_ns())

    def _retire(self, process: ProcessRecord) -> None:
        """Stops waiting for its end. A new connection with its pid belongs to another process."""
        handle = self._processes.forget(process)
        if handle is not None:
            self._connections.unwatch(handle)
            os.close(handle)

    # -- input of peers (Receiver) -------------------------------------------------------------------------------

    def _account(self, peer: Peer) -> ProcessRecord:
        known = self._processes.by_peer.get(peer)
        if known is not None:
            return known
        before = self._processes.before_exec(peer)
        if before is not None:
            self._died(before)
        process, handle = self._processes.attach(peer)
        if handle is not None:
            self._connections.watch(handle)
        return process

    def hello(self, peer: Peer, document: dict[str, Any]) -> str | None:
        """Answers with WELCOME. An application gets its account now, a monitor never."""
        if document.get("role") != "monitor":
            peer.reporter = name_in(document, "reporter")
            account = self._account(peer)
            self._supersede(peer, account, name_in(document, "image"))
            account.sources = {"socket"}
            if self._believes_failures:
                self.books.native.follow_table(account.index)
            inside: object = document.get("container_pid")
            if type(inside) is int and 0 < inside <= LARGEST_PID and inside != peer.pid:
                (account.part_of or account).container_pid = inside
        peer.send(
            [
                frames.preamble(),
                frames.json_frame(Frame.WELCOME, {"pid": os.getpid(), "version": __version__}),
            ]
        )
        return None

    def _supersede(self, peer: Peer, account: ProcessRecord, image: str | None) -> None:
        """Ends earlier connections of the reporter, and accounts of a program that the process ran before."""
        account.image = image
        before = self._processes.before(peer)
        if before is not None:  # what the reporter sent there comes first
            peer.paused = True
            self._after_the_rest([before], partial(self._connections.resume, peer))
        for old in (account.part_of or account).accounts:
            if None not in (image, old.image) and old.image != image:
                old.image = None
                self._after_the_rest(
                    self._processes.peers_of(old), partial(self._forget_account, old)
                )

    def _forget_account(self, account: ProcessRecord) -> None:
        self._log.info(
            f"{account.title} runs another program now; what it held before is released",
            account.facts.user,
        )
        # Otherwise it went with its connection.
        if self.books.processes.get(account.index) is account:
            self.books.empty(account)
            if account.part_of is not None and not account.connections:
                self.books.close_account(account)

    def declare(self, peer: Peer, declaration: DeviceDeclaration) -> None:
        self.books.declare(self._account(peer), declaration)

    def string(self, peer: Peer, number: int, text: str) -> None:
        self.books.define_string(self._account(peer), number, text)

    def cores(self, peer: Peer, number: int, mask: int) -> None:
        self.books.define_cores(self._account(peer), number, mask)

    def events(self, peer: Peer, data: bytes, offset: int, length: int) -> None:
        if not peer.reporting:
            self._connections.move(peer, reporting=True)
        process = self._account(peer)
        if self._believes_failures:
            failed = failures_in(data[offset : offset + length])
            process.keep_messages(
                {event.time: process.strings.get(event.cores, "") for event in failed}
            )
        apply = self.books.apply if self._event_lines is None else self._event_lines.apply
        apply(process, data, offset, length, now_ns())

    def resync(self, peer: Peer, begin: bool) -> None:
        process = self._account(peer)
        change = self.books.native.begin_resync if begin else self.books.native.end_resync
        change(process.index)
        if begin:
            process.incomplete = None

    def lost(self, peer: Peer, dropped: int, overflow: int) -> None:
        process = self._account(peer)
        self.books.count_lost(process, dropped, overflow, now_ns())
        if dropped or overflow:
            self._log.problem(
                f"lost/{process.pid}",
                f"{process.title} dropped {process.dropped:,} events and has {process.overflow:,} buffers beyond its"
                " limit",
                process.facts.user,
            )

    def query(self, peer: Peer, document: dict[str, Any]) -> list[bytes]:
        if peer.reporting:
            self._connections.move(peer, reporting=False)
        if document.get("what") == "mark":
            return self.recordings.mark(peer, document.get("text"))
        if document.get("what") == "record":
            answer = self.recordings.serve(peer, document)
            if self.recordings.stream.serves(peer):
                self._connections.move(
                    peer, reporting=True
                )  # it makes no queries, but it is not idle
            return answer
        now = now_ns()
        self.recordings.stream.tick(now)  # a recording has what was shown
        return self._answers.query(document, peer, now)

    def question(self, peer: Peer, head: Head, record_size: int) -> bytes | None:
        if peer.reporting:
            self._connections.move(peer, reporting=False)
        return self._answers.record(head, record_size, peer.uid)

    def problem(self, peer: Peer, text: str, records: int) -> None:
        sentence = f"pid {peer.pid}, {peer.protocol}: {text}"
        self.books.reject(f"{peer.pid}/{_constant(text)}", sentence, user_name(peer.uid), records)

    # -- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes everything and removes the socket file. It waits for pending output only, LAST_PATIENCE at most."""
        for watcher in (self._counter_watcher, self._probe_watcher):
            if watcher is not None:
                watcher.stop()
        self._guarded("the recording", self.recordings.close)
        self._guarded("those who record", self.recordings.stream.end_all)
        self._connections.close()
        with suppress(ValueError):  # not in the main thread: nothing was set
            signal.set_wakeup_fd(-1)
        self._wake.close()
        self._waker.close()
        self._output.close(LAST_PATIENCE)
        self._output.report_losses("standard output", self._log.problem)
        self._log.say_omitted()
        self._log.info("stopped")
        self._log_output.close(LAST_PATIENCE)


def _constant(text: str) -> str:
    """What comes before the first value, which the sender can choose: the same in all repetitions."""
    return re.split(r"['\"\d]", text, maxsplit=1)[0]
