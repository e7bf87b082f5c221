"""Phases: a name for what a program is doing, which tags everything it allocates meanwhile.

    with ttmem.phase("prefill"):
        ...

Phases nest: inside `phase("decode")`, `phase("attention")` is shown as `decode/attention`. Each thread has its own.
Tasks of an event loop share a thread and its phase: what was entered last and is still open counts, in whatever order
they are left; a path contains only the phases of its own task. A decorated generator is inside its phase while it
runs, and outside between a `yield` and the next step.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar, cast

DEEP = 16  # beyond this, phases below the top that other threads left are searched for
_process = 0  # incremented in a forked child, whose region numbers its phases anew


class OpenPhase:
    """A phase that was entered. It is open as long as it is on the stack of a thread.

    Two orders are kept, because they differ:

    - *The stack of a thread*, in the order of entering. The library tags the thread with its top.
    - *The phases around a task*, from the innermost outwards (`above`). They make up the path of the next phase.

    A phase may be left anywhere: in another order, task or thread than it was entered in. The
    second order skips phases that were left. Only a thread itself can change its tag, so a phase that another thread
    left is removed from the stack when its own thread next enters or leaves a phase.
    """

    __slots__ = ("above", "name", "number", "path", "process", "stack")

    def __init__(self, name: str, above: OpenPhase | None) -> None:
        self.name = name
        self.above = above
        self.path = name
        self.number = 0  # known once another phase is entered inside it
        self.process = _process
        self.stack: list[OpenPhase] | None = None

    def open(self) -> None:
        """Tags this thread with it from now on."""
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
        """From the phases that are open now: the path of the one above may name phases that were left since."""
        names, above = [self.name], still_open(self.above)
        while above is not None:
            names.append(above.name)
            above = still_open(above.above)
        return "/".join(reversed(names))

    def leave(self) -> None:
        """Permanently."""
        if self.above is not None:
            self.above = still_open(self.above)  # so that chains of left phases do not grow
        if innermost.get() is self:
            innermost.set(self.above)
        self.take_off()

    def take_off(self) -> None:
        """Removes it from the stack of its thread. Another thread only marks it: only the owner changes a stack."""
        stack, self.stack = self.stack, None
        own = thread.stack
        if stack is own and own[-1] is not self:
            own.remove(self)
        if own and own[-1].stack is not own:
            _settle(own)


innermost: ContextVar[OpenPhase | None] = ContextVar("ttmem.phase", default=None)


class _Thread(threading.local):
    """`stack`: the phases entered in this thread, the last one on top."""

    def __init__(self) -> None:
        self.stack: list[OpenPhase] = []


thread = _Thread()


def still_open(phase: OpenPhase | None) -> OpenPhase | None:
    """This phase, or the first one above it that was not left."""
    while phase is not None and phase.stack is None:
        phase = phase.above
    return phase


class Step:
    """One step of a generator, inside a phase.

    What the generator has entered and not left when it yields is suspended, and resumed with the next step, which
    another thread or task may take.
    """

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
    """Removes left phases from the stack of this thread; its top then tags the thread."""
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
    """The library, if it was preloaded into this process. Its functions are too short to release the GIL for."""
    process = ctypes.PyDLL(None)
    if not hasattr(process, "ttmem_probe_enter_phase"):
        return None
    process.ttmem_probe_enter_phase.argtypes = [ctypes.c_char_p]
    process.ttmem_probe_enter_phase.restype = ctypes.c_uint32
    process.ttmem_probe_leave_phase.argtypes = [ctypes.c_uint32]
    process.ttmem_probe_leave_phase.restype = None
    if hasattr(process, "ttmem_probe_mark"):
        process.ttmem_probe_mark.argtypes = [ctypes.c_char_p]
        process.ttmem_probe_mark.restype = ctypes.c_int
    os.register_at_fork(after_in_child=_start_over_in_child)
    return process


library: Any = _load()


_Callable = Callable[..., Any]
Function = TypeVar("Function", bound=_Callable)


def phase(name: str) -> Phase:
    """Tags what this thread allocates inside, in every view: a context manager and a decorator.

    Phases nest: `phase("attention")` inside `phase("decode")` is shown as `decode/attention`. Without the probe
    (`ttmem run`) a phase does nothing, in less than a microsecond.
    """
    return _NOTHING if library is None else _WatchedPhase(name)


def reports_mark(text: str) -> bool:
    """Reports a mark to the probe; False if it reports nothing."""
    if not hasattr(library, "ttmem_probe_mark"):  # not watched, or by an earlier version
        return False
    return bool(library.ttmem_probe_mark(text.replace("\0", " ").encode("utf-8", "replace")))


class Phase:
    """A phase of a process that is not watched. Can be reused, by any thread, and inside itself."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *trouble: object) -> None:
        pass

    def __call__(self, function: Function) -> Function:
        return function


class _WatchedPhase(Phase):
    """A phase that is reported to the probe."""

    __slots__ = ("_name", "_open")

    def __init__(self, name: str) -> None:
        self._name = str(name).replace("\0", " ")
        self._open: list[OpenPhase] = []  # entered and not left, in any thread

    def __enter__(self) -> None:
        entered = OpenPhase(self._name, still_open(innermost.get()))
        entered.open()
        self._open.append(entered)

    def __exit__(self, *trouble: object) -> None:
        left = self._meant()
        if left is not None:
            with suppress(ValueError):  # another thread has just left it
                self._open.remove(left)
            left.leave()

    def _meant(self) -> OpenPhase | None:
        """Entered by this task, else in this thread, else in any: a generator's last step may be another thread's."""
        around = innermost.get()
        while around is not None:
            if around in self._open:
                return around
            around = around.above
        here = [phase for phase in self._open if phase.stack is thread.stack]
        return next(reversed(here or self._open), None)

    def __call__(self, function: Function) -> Function:
        return cast(Function, _inside_phase(function, self, self._name))


_NOTHING = Phase()


def _inside_phase(function: _Callable, phase: AbstractContextManager[None], name: str) -> _Callable:
    """Wraps `function` into the same kind of callable: a generator stays a generator, a coroutine a coroutine."""
    if isgeneratorfunction(function):
        return _generator(function, name)
    if isasyncgenfunction(function):
        return _async_generator(function, name)

    @wraps(function)
    def inside(*arguments: Any, **named: Any) -> Any:
        with phase:
            return function(*arguments, **named)

    @wraps(function)
    async def inside_coroutine(*arguments: Any, **named: Any) -> Any:
        with phase:
            return await function(*arguments, **named)

    return inside_coroutine if iscoroutinefunction(function) else inside


def _generator(function: _Callable, name: str) -> _Callable:
    @wraps(function)
    def in_steps(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        steps: Generator[Any, Any, Any] = function(*arguments, **named)
        inside, go_on, given = Step(name), steps.send, None
        while True:
            try:
                with inside:
                    found = go_on(given)
            except StopIteration as end:
                return end.value
            try:
                given, go_on = (yield found), steps.send
            except GeneratorExit:
                with inside:
                    steps.close()
                raise
            except BaseException as trouble:
                given, go_on = trouble, steps.throw

    return in_steps


def _async_generator(function: _Callable, name: str) -> _Callable:
    @wraps(function)
    async def in_steps(*arguments: Any, **named: Any) -> AsyncGenerator[Any, Any]:
        steps: AsyncGenerator[Any, Any] = function(*arguments, **named)
        inside, go_on, given = Step(name), steps.asend, None
        while True:
            try:
                with inside:
                    found = await go_on(given)
            except StopAsyncIteration:
                return
            try:
                given, go_on = (yield found), steps.asend
            except GeneratorExit:
                with inside:
                    await steps.aclose()
                raise
            except BaseException as trouble:
                given, go_on = trouble, steps.athrow

    return in_steps
