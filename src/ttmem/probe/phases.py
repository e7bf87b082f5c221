"""Phases: a name for what a program is doing, which tags everything it allocates meanwhile.

    with ttmem.phase("prefill"):
        ...

Phases nest: inside `phase("decode")`, `phase("attention")` is shown as `decode/attention`. Each thread has its own.
Tasks of an event loop share a thread and its phase: what was entered last and is still open counts, in whatever order
they are left; a path contains only the phases of its own task. A decorated generator is inside its phase while it
runs, and outside between a `yield` and the next step.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, suppress
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar, cast

from ttmem.probe.open_phases import OpenPhase, Step, innermost, library, still_open, thread

_Callable = Callable[..., Any]
Function = TypeVar("Function", bound=_Callable)


def phase(name: str) -> Phase:
    """Tags what this thread allocates inside, in every view: a context manager and a decorator.

    Phases nest: `phase("attention")` inside `phase("decode")` is shown as `decode/attention`. Without the probe
    (`ttmem run`) a phase does nothing, in less than a microsecond.
    """
    return _NOTHING if library is None else _WatchedPhase(name)


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
        here = [one for one in self._open if one.stack is thread.stack]
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
