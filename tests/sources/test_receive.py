"""Receiving from a socket: behind what is left of the frame before, and without waiting."""

from __future__ import annotations

import socket

import pytest

from ttmem._native import receive


def test_what_is_received_stands_behind_the_rest_of_a_frame() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.sendall(b"frame")

        assert receive(receiver.fileno(), b"half a ", 3) == b"half a fra"
        assert receive(receiver.fileno(), b"", 100) == b"me"


def test_a_socket_without_data_is_not_waited_for() -> None:
    sender, receiver = socket.socketpair()
    with sender, receiver, pytest.raises(BlockingIOError):
        receive(receiver.fileno(), b"rest", 100)


def test_nothing_is_added_to_the_rest_when_the_other_end_is_closed() -> None:
    sender, receiver = socket.socketpair()
    with receiver:
        sender.close()

        assert receive(receiver.fileno(), b"rest", 100) == b"rest"


def test_a_descriptor_that_is_no_socket_is_an_error() -> None:
    with open("/dev/null", "rb") as file, pytest.raises(OSError, match="non-socket"):
        receive(file.fileno(), b"", 100)
