"""Asking a server, and what goes wrong on the way."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from ttmem.client.query import ServerConnection
from ttmem.errors import BadInput, NoServer, Refused, TtmemError

PREAMBLE = struct.pack("<8sII", b"TTMEM\r\n\x1a", 1, 0)


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<II", kind, len(payload)) + payload


def answer(document: object, attachments: bytes = b"") -> bytes:
    text = json.dumps(document).encode()
    return frame(12, struct.pack("<I", len(text)) + text + attachments)


WELCOME = PREAMBLE + frame(2, b"{}")


@contextmanager
def server(path: str, greeting: bytes, reply: bytes = b"") -> Iterator[list[bytes]]:
    """Says the greeting after a hello and the reply after a question; yields what it heard."""
    heard: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            heard.append(connection.recv(4096))
            for part in (greeting[:9], greeting[9:]):  # in pieces, as sockets do
                connection.sendall(part)
            heard.append(connection.recv(4096))
            connection.sendall(reply)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def ask(path: str, timeout: float = 5) -> object:
    with ServerConnection(path, timeout) as connection:
        return connection.query("snapshot", detail=["cores"])


def test_a_question_gets_its_document_and_its_attachments(path: str) -> None:
    reply = answer({"a": 1, "attachments": {"x": 3, "y": 2}}, b"12345")
    with server(path, WELCOME, reply) as heard, ServerConnection(path) as connection:
        document, attachments = connection.query("snapshot", detail=["cores"])

    hello, question = heard
    assert json.loads(hello[24:])["role"] == "monitor"
    assert json.loads(question[8:]) == {"what": "snapshot", "detail": ["cores"]}
    assert document == {"a": 1}
    assert {name: bytes(data) for name, data in attachments.items()} == {"x": b"123", "y": b"45"}


def test_a_large_answer_comes_in_one_piece(path: str) -> None:
    reply = answer({"attachments": {"x": 9_000_000}}, bytes(9_000_000))
    with server(path, WELCOME, reply), ServerConnection(path) as connection:
        _, attachments = connection.query("snapshot")

    assert len(attachments["x"]) == 9_000_000


def test_no_server_says_how_to_start_one(path: str) -> None:
    with pytest.raises(NoServer) as told:
        ask(path)

    assert str(told.value) == f"no server at {path}; start one with `ttmem serve --socket {path}`"
    assert told.value.exit_code == 3


def test_a_stale_socket_is_no_server(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(path)

    with pytest.raises(NoServer, match="start one with"):
        ask(path)


def test_a_file_that_is_no_socket_is_named_so(path: str) -> None:
    with open(path, "w"):
        pass

    with pytest.raises(NoServer, match="is not a socket"):
        ask(path)


@pytest.mark.parametrize("name", ["x" * 300, "/dev/null/socket"])
def test_a_path_that_cannot_be_a_socket_is_bad_input(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be used"):
        ask(name)


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_a_socket_of_somebody_else_names_the_owner_and_the_way_in(path: str) -> None:
    with server(path, WELCOME):
        os.chmod(path, 0o600)
        os.chmod(os.path.dirname(path), 0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(TtmemError, match=r"belongs to root.*--group") as told:
                ask(path)
        finally:
            os.seteuid(0)

    assert told.value.exit_code == 1


def test_a_refusal_is_told_in_the_servers_words(path: str) -> None:
    refusal = PREAMBLE + frame(3, b"monitors are not welcome")
    with server(path, refusal), pytest.raises(Refused, match=r"^monitors are not welcome$"):
        ask(path)


def test_another_version_is_told(path: str) -> None:
    other = struct.pack("<8sII", b"TTMEM\r\n\x1a", 7, 0)
    with server(path, other), pytest.raises(Refused, match=r"version 7.*version 1"):
        ask(path)


def test_a_silent_server_is_not_waited_for(path: str) -> None:
    with server(path, b""), pytest.raises(TtmemError, match="does not answer"):
        ask(path, 0.05)


@contextmanager
def crowded(path: str) -> Iterator[socket.socket]:
    """A listener whose queue of new connections is full."""
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as waiting:
        listener.bind(path)
        listener.listen(0)
        with suppress(BlockingIOError):
            while True:
                another = waiting.enter_context(socket.socket(socket.AF_UNIX))
                another.setblocking(False)
                another.connect(path)
        yield listener


def test_a_server_whose_queue_stays_full_is_busy(path: str) -> None:
    with crowded(path), pytest.raises(TtmemError, match="is busy: too many new connections"):
        ask(path, 0.05)


def test_a_full_queue_is_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with crowded(path) as listener, ExitStack() as taken:
        listener.settimeout(5)

        def go_on(seconds: float) -> None:
            """The server takes all who wait, and welcomes who comes next."""
            monkeypatch.undo()
            taken.enter_context(listener.accept()[0])

            def welcome() -> None:
                connection = taken.enter_context(listener.accept()[0])
                for reply in (WELCOME, answer({"a": 1})):
                    connection.recv(4096)
                    connection.sendall(reply)

            threading.Thread(target=welcome, daemon=True).start()

        monkeypatch.setattr("time.sleep", go_on)

        assert ask(path) == ({"a": 1}, {})


def test_what_a_server_says_moves_no_cursor_and_makes_no_line(path: str) -> None:
    reply = answer({"error": "\x1b[2Jall is well\nroot: trust me"})
    with (
        server(path, WELCOME, reply),
        ServerConnection(path) as connection,
        pytest.raises(TtmemError) as caught,
    ):
        connection.query("x")

    assert str(caught.value).endswith("says: ?[2Jall is well?root: trust me")


def test_a_server_that_says_no_such_question_is_quoted(path: str) -> None:
    reply = answer({"error": "there is no question 'x'"})
    with server(path, WELCOME, reply), pytest.raises(TtmemError, match="there is no question"):
        ask(path)


BROKEN: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "half a header": lambda: b"\x0c\0\0",
    "half an answer": lambda: answer({"a": 1})[:-3],
    "a length beyond all bounds": lambda: struct.pack("<II", 12, 0xFFFFFFFF),
    "an empty answer": lambda: frame(12, b""),
    "a text longer than the answer": lambda: frame(12, struct.pack("<I", 99) + b"{}"),
    "no JSON": lambda: frame(12, struct.pack("<I", 3) + b"abc"),
    "JSON that is no object": lambda: answer([1, 2]),
    "attachments that are none": lambda: answer({"attachments": 3}),
    "attachments that do not fit": lambda: answer({"attachments": {"x": 5}}, b"123"),
    "attachments of no length": lambda: answer({"attachments": {"x": "5"}}, b"12345"),
    "attachments of negative length": lambda: answer({"attachments": {"x": -1, "y": 4}}, b"123"),
    "brackets without end": lambda: frame(12, struct.pack("<I", 50_000) + b"[" * 50_000),
    "bytes that are no text": lambda: frame(12, struct.pack("<I", 2) + b"\xff\xfe"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_answer_is_an_error_in_words(path: str, what: str) -> None:
    with server(path, WELCOME, BROKEN[what]()), pytest.raises(TtmemError) as told:
        ask(path)

    assert path in str(told.value)
