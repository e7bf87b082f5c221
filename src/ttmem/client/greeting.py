"""The start of a conversation: what a client says first, and what a server may answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b

from ttmem.errors import Refused
from ttmem.process_identity import process_facts
from ttmem.text import printable
from ttmem.wire.frame_stream import FrameError, FrameStream
from ttmem.wire.frames import Frame, json_frame, preamble

_FIRST_PID_NAMESPACE = "pid:[4026531836]"  # the kernel's constant PROC_PID_INIT_INO


def opening(role: str, reporter: str | None = None) -> bytes:
    """Preamble and HELLO. `reporter` tells the clients of one process apart, also when they come again."""
    facts = process_facts(os.getpid())
    hello = {
        "pid": facts.pid,
        "start_time_ns": facts.start_time_ns,
        "name": (facts.command or "")[:200],
        "container_pid": facts.pid if _in_container() else None,
        "role": role,
    }
    if reporter is not None:
        hello |= {"reporter": reporter, "image": _image(), "hears": True}
    return preamble() + json_frame(Frame.HELLO, hello)


def _image() -> str | None:
    """Names the program that this process runs: the kernel lays out the addresses in here anew at each `exec`."""
    try:
        with open("/proc/self/auxv", "rb") as vector:
            return blake2b(vector.read(), digest_size=8).hexdigest()
    except OSError:
        return None


def _in_container() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE
    except OSError:
        return False


def welcomed(stream: FrameStream, path: str) -> bool:
    """True if the server's words hold a welcome; `Refused` if it says no, or is none of ours."""
    return any(kind is Frame.WELCOME for kind, _ in heard(stream, path))


def heard(stream: FrameStream, path: str) -> Iterator[tuple[Frame, str]]:
    """What a server says, frame by frame, with its sentence if it has one; `Refused` as above."""
    try:
        while (taken := stream.take()) is not None:
            kind, data, start, length = taken
            if kind is Frame.REFUSED:
                raise Refused(sentence(data[start : start + length]))
            yield kind, sentence(data[start : start + length])
    except FrameError as error:
        raise Refused(f"what listens at {path} is no server for this client: {error}") from error


def sentence(payload: bytes | bytearray) -> str:
    """What a server says in words, fit for a terminal."""
    return printable(bytes(payload[:1000]))
