"""The phases that were entered and not left: which of them tags a thread now, and which path a new one gets.

Two orders are kept, because they differ:

- *The stack of a thread*, in the order of entering. Its top is what the library tags the thread with.
- *The phases around a task*, from the innermost outwards (`above`). They make the path of the next phase.

A phase may be left anywhere: in another order, task or thread than it was entered in. Left ones are skipped in the
second order. Only a thread itself can change its tag, so one that another thread left is taken off its stack as soon as
that thread enters or leaves a phase again.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextvars import ContextVar
from typing import Any, cast

DEEP = 16  # beyond it, phases that other threads left below the top are looked for
_process = 0  # counts up in the child of a fork, whose region numbers its phases anew


class OpenPhase:
    """A phase that was entered. It is open as long as it is on the stack of a thread."""

    __slots__ = ("above", "name", "number", "path", "process", "stack")

    def __init__(self, name: str, above: OpenPhase | None) -> None:
        self.name = name
        self.above = above
        self.path = name
        self.number = 0  # known once another phase is entered on top of it
        self.process = _process
        self.stack: list[OpenPhase] | None = None

    def open(self) -> None:
        """This thread is tagged with it from now on."""
        self.path = self._open_path() if self.above else self.name
        stack = thread.stack
        if stack and (stack[-1].stack is not stack or len(stack) > DEEP):
            _settle(stack)
        before = _tell(self.path)
        if stack:
            stack[-1].number = before
        self.process = _process
        self.stack = stack
        stack.append(self)
        innermost.set(self)

    def _open_path(self) -> str:
        """Made of those that are open now: the path of the one above may name phases that were left since."""
        names, above = [self.name], still_open(self.above)
        while above is not None:
            names.append(above.name)
            above = still_open(above.above)
        return "/".join(reversed(names))

    def leave(self) -> None:
        """For ever."""
        if self.above is not None:
            self.above = still_open(self.above)  # so that chains of left ones do not grow
        if innermost.get() is self:
            innermost.set(self.above)
        self.take_off()

    def take_off(self) -> None:
        """Of the stack of its thread. Another thread only marks it: nobody changes a stack but its owner."""
        stack, self.stack = self.stack, None
        own = thread.stack
        if stack is own and own[-1] is not self:
            own.remove(self)
        if own and own[-1].stack is not own:
            _settle(own)


innermost: ContextVar[OpenPhase | None] = ContextVar("ttmem.phase", default=None)


class _Thread(threading.local):
    """`stack`: the phases that were entered in this thread, the last one on top."""

    def __init__(self) -> None:
        self.stack: list[OpenPhase] = []


thread = _Thread()


def still_open(phase: OpenPhase | None) -> OpenPhase | None:
    """This one, or the first one above it that was not left."""
    while phase is not None and phase.stack is None:
        phase = phase.above
    return phase


class Step:
    """One step of a generator, inside a phase. What the generator enters and has not left when it yields is taken off
    too, and comes back with the next step, which another thread or task may take."""

    __slots__ = ("_before", "_inside", "_phase")

    def __init__(self, name: str) -> None:
        self._phase = OpenPhase(name, None)
        self._inside: list[OpenPhase] = []
        self._before: OpenPhase | None = None

    def __enter__(self) -> None:
        self._before = innermost.get()
        self._phase.above = still_open(self._before)
        for phase in (self._phase, *self._inside):
            phase.open()

    def __exit__(self, *trouble: object) -> None:
        self._inside = self._entered_inside()
        for phase in (*self._inside[::-1], self._phase):
            phase.take_off()
        innermost.set(self._before)

    def _entered_inside(self) -> list[OpenPhase]:
        found: list[OpenPhase] = []
        phase = still_open(innermost.get())
        while phase is not None and phase is not self._phase:
            found.append(phase)
            phase = still_open(phase.above)
        return found[::-1] if phase is self._phase else []


def _settle(stack: list[OpenPhase]) -> None:
    """Takes what was left off the stack of this thread; then the top is what tags it."""
    top = stack[-1]
    stack[:] = [phase for phase in stack if phase.stack is stack]
    if not stack or stack[-1] is not top:
        _go_back_to(stack[-1] if stack else None)


def _tell(path: str) -> int:
    return cast(int, library.ttmem_probe_enter_phase(path.encode("utf-8", "replace")))


def _go_back_to(phase: OpenPhase | None) -> None:
    if phase is not None and phase.process != _process:
        _tell(phase.path)
    else:
        library.ttmem_probe_leave_phase(phase.number if phase else 0)


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


library: Any = _load()
