"""A real server in a process of its own, and a client that speaks the historical records to it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_S, wait_until
from ttmem.wire.historical import Head, Message, encode

_SERVE = """
import argparse, sys
from ttmem.commands import serve
parser = argparse.ArgumentParser()
serve.prepare(parser)
serve.run(parser.parse_args(sys.argv[1:]))
"""


@contextmanager
def serving(path: Path, *options: str) -> Iterator[None]:
    """`ttmem serve` at that socket, until the block ends; the host's own devices are not in it."""
    command = [sys.executable, "-c", _SERVE, "--socket", str(path), "--quiet", "--no-shm", *options]
    server = subprocess.Popen(command)
    try:
        wait_until(lambda: _answers(path))
        yield
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def reporting(path: Path, *heads: Head) -> Iterator[None]:
    """A connection that has reported these messages, open while the block runs."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"".join(encode(144, head) for head in heads))
        client.sendall(encode(144, Head(Message.QUERY)))
        assert len(client.recv(144)) == 144  # all before it is accounted
        yield
