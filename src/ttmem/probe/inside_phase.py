"""Functions, coroutines and generators whose every run is inside a phase."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any

from ttmem.probe.open_phases import Step

Function = Callable[..., Any]


def inside_phase(function: Function, phase: AbstractContextManager[None], name: str) -> Function:
    """Of the same sort as `function`: whoever asks whether it is a generator gets the same answer."""
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


def _generator(function: Function, name: str) -> Function:
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


def _async_generator(function: Function, name: str) -> Function:
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
