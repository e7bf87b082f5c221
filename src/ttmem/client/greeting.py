"""The start of a conversation: what a client says first, and what a server may answer."""

from __future__ import annotations

import os
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
        hello |= {"reporter": reporter, "image": _image()}
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
    try:
        while (taken := stream.take()) is not None:
            kind, data, start, length = taken
            if kind is Frame.REFUSED:
                raise Refused(refusal(data[start : start + length]))
            if kind is Frame.WELCOME:
                return True
    except FrameError as error:
        raise Refused(f"what listens at {path} is no server for this client: {error}") from error
    return False


def refusal(payload: bytes | bytearray) -> str:
    """The sentence of a REFUSED frame, fit for a terminal."""
    return printable(bytes(payload[:1000]))
