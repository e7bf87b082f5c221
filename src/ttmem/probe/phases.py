"""Phases: a word for what a program is doing, which tags everything that it allocates meanwhile.

    with ttmem.phase("prefill"):
        ...

Phases nest: inside `phase("decode")`, `phase("attention")` is told as `decode/attention`. Each thread has its own.
Tasks of an event loop share a thread and its phase: what was entered last and is still open counts, in whatever order
they are left; a path is made of the phases of its own task alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_path: ContextVar[str] = ContextVar("ttmem.phase", default="")
_process = 0  # counts up in the child of a fork, whose region numbers its phases anew


def phase(name: str) -> Phase:
    """What this thread does inside belongs to `name`; also a decorator. Without the probe it does nothing."""
    return _NOTHING if _library is None else _WatchedPhase(name)


class Phase:
    """A phase of a process that nobody watches. May be used again, by any thread, and inside itself."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *trouble: object) -> None:
        pass

    def __call__(self, function: Function) -> Function:
        return function


class _Open:
    """A phase that was entered and not left."""

    __slots__ = ("above", "number", "owner", "path", "process")

    def __init__(self, owner: _WatchedPhase, above: str, path: str) -> None:
        self.owner = owner
        self.above = above
        self.path = path
        self.number = 0  # known once another phase is entered on top of it
        self.process = _process


class _Thread(threading.local):
    """The open phases of one thread, the last one on top."""

    def __init__(self) -> None:
        self.open: list[_Open] = []


_thread = _Thread()


class _WatchedPhase(Phase):
    """A phase that the library is told of."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = str(name).replace("\0", " ")

    def __enter__(self) -> None:
        above = _path.get()
        path = f"{above}/{self._name}" if above else self._name
        before = _tell(path)
        if _thread.open:
            _thread.open[-1].number = before
        _thread.open.append(_Open(self, above, path))
        _path.set(path)

    def __exit__(self, *trouble: object) -> None:
        still_open, path = _thread.open, _path.get()
        mine = [one for one in still_open if one.owner is self]
        if not mine:
            return  # entered in another thread
        left = next((one for one in reversed(mine) if one.path == path), mine[-1])
        _path.set(left.above)
        on_top = still_open[-1] is left
        still_open.remove(left)
        if on_top:
            _go_back_to(still_open[-1] if still_open else None)

    def __call__(self, function: Function) -> Function:
        @wraps(function)
        def inside(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        @wraps(function)
        async def inside_coroutine(*arguments: Any, **named: Any) -> Any:
            with self:
                return await function(*arguments, **named)

        return cast(Function, inside_coroutine if iscoroutinefunction(function) else inside)


def _tell(path: str) -> int:
    return cast(int, _library.ttmem_probe_enter_phase(path.encode("utf-8", "replace")))


def _go_back_to(before: _Open | None) -> None:
    if before is not None and before.process != _process:
        _tell(before.path)
    else:
        _library.ttmem_probe_leave_phase(before.number if before else 0)


def _start_over_in_child() -> None:
    global _process
    _process += 1


def _load() -> Any:
    """The library of this process, if it was preloaded. Its functions are too short to give up the GIL for."""
    process = ctypes.PyDLL(None)
    if not hasattr(process, "ttmem_probe_enter_phase"):
        return None
    process.ttmem_probe_enter_phase.argtypes = [ctypes.c_char_p]
    process.ttmem_probe_enter_phase.restype = ctypes.c_uint32
    process.ttmem_probe_leave_phase.argtypes = [ctypes.c_uint32]
    process.ttmem_probe_leave_phase.restype = None
    os.register_at_fork(after_in_child=_start_over_in_child)
    return process


_NOTHING = Phase()
_library: Any = _load()
