"""A small server for the tests, with a parser of its own, in this process or in another.

It is strict: whatever a client says in the wrong order, or names before declaring it, is kept as a
complaint.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.client.accounts import Accounts

MARKER = 0xFFFF  # the device whose cache entries tell that everything before has arrived
RESENT = 8


class Session:
    """One client's stream."""

    def __init__(self, peer: Peer, connection: socket.socket) -> None:
        self.peer, self.connection = peer, connection
        self.hello: dict[str, Any] = {}
        self.accounts = Accounts()
        self.shadow: Accounts | None = None  # during a resync
        self.devices: dict[int, dict[str, Any]] = {}
        self.strings: dict[int, str] = {0: ""}
        self.cores: dict[int, list[tuple[int, ...]]] = {0: []}
        self.lost = (0, 0)
        self.marker = -1
        self.events: list[tuple[int, ...]] = []

    def run(self) -> None:
        """Reads to the end."""
        try:
            magic, version, zero = struct.unpack("<8sII", self.read(16))
            self.peer.expect(magic == b"TTMEM\r\n\x1a" and (version, zero) == (1, 0), "preamble")
            if not self.greet():
                return
            while True:
                self.peer.reading.wait()
                kind, length = struct.unpack("<II", self.read(8))
                self.take(kind, self.read(length))
        except (EOFError, OSError):
            pass

    def greet(self) -> bool:
        """Answers as the peer was told to."""
        kind, length = struct.unpack("<II", self.read(8))
        self.hello = json.loads(self.read(length))
        self.peer.expect(kind == 1 and self.hello["role"] == "application", "HELLO")
        if self.peer.silent:
            self.read(1)
        preamble = struct.pack("<8sII", b"TTMEM\r\n\x1a", self.peer.version, 0)
        answer = self.peer.refusal.encode() or b'{"pid":1,"version":"0"}'
        answer = struct.pack("<II", 3 if self.peer.refusal else 2, len(answer)) + answer
        self.connection.sendall(preamble + answer)
        return not self.peer.refusal

    def read(self, length: int) -> bytes:
        """Exactly so many bytes."""
        data = b""
        while len(data) < length:
            part = self.connection.recv(length - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def take(self, kind: int, payload: bytes) -> None:
        """One frame."""
        with self.peer.lock:
            if kind == 4:
                device = json.loads(payload)
                self.devices[device["logical_id"]] = device
            elif kind == 5:
                self.strings[struct.unpack("<I", payload[:4])[0]] = payload[4:].decode()
            elif kind == 6:
                rectangles = list(struct.iter_unpack("<HHHH", payload[4:]))
                self.cores[struct.unpack("<I", payload[:4])[0]] = rectangles
            elif kind == 7:
                for event in struct.iter_unpack("<BBHIQQQQQIIII", payload):
                    self.event(event)
            elif kind == 8:
                self.peer.expect(self.shadow is None, "RESYNC_BEGIN twice")
                self.shadow = Accounts()
            elif kind == 9 and self.shadow is not None:
                self.accounts, self.shadow = self.shadow, None
                self.peer.resyncs += 1
            elif kind == 10:
                self.lost = struct.unpack("<QQ", payload)
            else:
                self.peer.expect(False, f"frame {kind}")

    def event(self, event: tuple[int, ...]) -> None:
        """One event."""
        op, kind, flags, device, _, number, size, extra, address, count, cores, name, site = event
        self.events.append(event)
        self.peer.expect(bool(flags & RESENT) == (self.shadow is not None), "RESENT")
        declared = cores in self.cores and name in self.strings and site in self.strings
        self.peer.expect(declared, f"undeclared {cores} {name} {site}")
        if device == MARKER:
            if op == 21:
                self.marker = size
            return
        books = self.shadow or self.accounts
        if op == 1:
            books.allocate(device, kind, number, size, count or 1)
        elif op == 2:
            self.peer.expect(bool(flags & 1), "FREE without its kind")
            books.free(device, kind, number)
        elif op == 8:
            self.peer.expect(number == address, "CB address")
            books.allocate_cb(device, address, size, extra, cores, flags, count or 1)
        elif op == 9:
            books.free_cb(device, address, size, extra, cores, flags)
        elif op == 10:
            books.load(device, number, size, count, kind, extra)
        elif op == 11:
            books.unload(device, number)
        elif op == 16:
            books.dispatch(device, flags)
        elif op == 17:
            books.destroy(device, number)
        elif op == 18:
            books.status(device, number, kind)
        elif op == 19:
            books.rings[device] = (number, size, extra, address, count)
        elif op == 20:
            books.set_counters(device, [number, size, extra, address, count])
        elif op == 21:
            books.cache_entries[device] = size
        else:
            self.peer.expect(False, f"op {op}")


class Peer:
    """Listens at a path; each connection is a thread."""

    def __init__(
        self, path: str, version: int = 1, refusal: str = "", silent: bool = False
    ) -> None:
        self.version, self.refusal, self.silent = version, refusal, silent
        self.lock = threading.Lock()
        self.reading = threading.Event()
        self.reading.set()
        self.complaints: list[str] = []
        self.resyncs = 0
        self.sessions: list[Session] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            session = Session(self, connection)
            self.sessions.append(session)
            threading.Thread(target=session.run, daemon=True).start()

    def expect(self, true: bool, what: str) -> None:
        """Keeps a complaint if it is not true."""
        if not true:
            self.complaints.append(what)

    def session(self, pid: int | None = None) -> Session | None:
        """The latest connection of a process."""
        pid = pid or os.getpid()
        found = [session for session in self.sessions if session.hello.get("pid") == pid]
        return found[-1] if found else None

    def picture(self, pid: int | None = None) -> dict[str, list[Any]] | None:
        """The accounts of a process, outside a resync."""
        session = self.session(pid)
        with self.lock:
            if session is None or session.shadow is not None:
                return None
            return session.accounts.picture()

    def has_seen(self, turn: int) -> bool:
        """True if the marker has come, and with it everything before."""
        session = self.session()
        return session is not None and session.marker == turn and session.shadow is None

    def hang_up(self) -> None:
        """Closes all connections, as a crash would."""
        for session in self.sessions:
            try:
                session.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        """Stops listening, and hangs up."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reading.set()
        self.hang_up()
        for session in self.sessions:
            session.connection.close()


class PeerProcess:
    """The same in a process of its own, which can be stopped and killed."""

    def __init__(self, path: str) -> None:
        if os.path.exists(path):
            os.unlink(path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.client.peer", path],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._ask("") == "ready"

    def _ask(self, question: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if question:
            print(question, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def picture(self, pid: int | None = None) -> Any:
        """As of `Peer`."""
        return self._ask(f"{pid or os.getpid()} picture")

    def fact(self, name: str, pid: int | None = None) -> Any:
        """marker, lost, resyncs or complaints."""
        return self._ask(f"{pid or os.getpid()} {name}")

    def send_signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and nothing remains but the socket's file."""
        self._process.kill()
        self._process.communicate()


def main(path: str) -> None:
    """Answers questions about the accounts, one per line."""
    peer = Peer(path)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        pid, fact = line.split()
        session = peer.session(int(pid))
        facts = {
            "picture": peer.picture(int(pid)),
            "marker": session and session.marker,
            "lost": session and session.lost,
            "resyncs": peer.resyncs,
            "complaints": peer.complaints,
        }
        print(json.dumps(facts[fact]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
