"""Servers that say no, speak another version, or are none of ours."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.client.conftest import MakePeer
from tests.patience import wait_until
from ttmem.client import AllocationClient


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    assert all(sentence.startswith("ttmem: ") for sentence in said)
    return [sentence.removeprefix("ttmem: ") for sentence in said]


def listen_once(path: str, answer: bytes) -> socket.socket:
    """Something that accepts, answers with these bytes and closes, again and again."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return listener


def stop(listener: socket.socket) -> None:
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_refusal_is_logged_once_in_the_servers_words(
    client: AllocationClient, make_peer: MakePeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer = make_peer(refusal="this server is for\x1b[2Jgroup tt only")

    client.report_allocation(0, 1, 64)

    wait_until(lambda: messages(caplog))
    assert not client.flush(0.3)
    assert messages(caplog) == ["this server is for?[2Jgroup tt only"]
    assert len(peer.sessions) == 1


def test_a_server_of_another_version_is_refused_with_both_versions(
    client: AllocationClient, make_peer: MakePeer, caplog: pytest.LogCaptureFixture
) -> None:
    make_peer(version=9)

    client.report_allocation(0, 1, 64)

    wait_until(lambda: messages(caplog))
    (message,) = messages(caplog)
    assert "version 9" in message
    assert "version 1" in message
    assert "install the same ttmem on both sides" in message
    assert client.stats().connected is False


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(144), b"TTMEX"])
def test_something_else_at_the_socket_is_named_and_left_alone(
    client: AllocationClient, path: str, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listen_once(path, answer)

    client.report_allocation(0, 1, 64)

    wait_until(lambda: messages(caplog))
    assert messages(caplog)[0].startswith(f"what listens at {path} is not a server for this client")
    stop(listener)


def test_one_that_hangs_up_without_a_word_is_tried_again_quietly(
    client: AllocationClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listen_once(path, b"")

    client.report_allocation(0, 1, 64)

    assert not client.flush(0.5)
    assert messages(caplog) == [f"the server at {path} closed the connection"]
    stop(listener)
