"""The pytest plugin: memory budgets and leak checks for tests on Tenstorrent devices. docs/pytest.md describes it.

pytest loads this file in every run, so it imports nothing else of ttmem until an option or a marker asks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from typing import NoReturn

import pytest

AGAIN = "TTMEM_PYTEST"  # set in the pytest that was started again
MARKER = (
    "ttmem(dram, l1, l1_small, trace, cb, l1_used, l1_per_core, leaks): limits of the memory that a test may use on a"
    ' device, such as l1="20 MiB"; leaks=0: it must free all that it allocates'
)
OPTIONS = ("ttmem", "ttmem_default", "ttmem_loop", "ttmem_baseline", "ttmem_record")
_ACTIVE = pytest.StashKey[bool]()
_UNCHECKED = pytest.StashKey[str]()  # why the limits of markers are not checked


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ttmem", "memory of Tenstorrent devices")
    add = group.addoption
    add("--ttmem", action="store_true", help="print the peaks of each test")
    add(
        "--ttmem-default",
        metavar="LIMITS",
        help='limits of tests without their own: "leaks=0,l1=20MiB"',
    )
    add(
        "--ttmem-loop",
        metavar="N",
        type=int,
        help="run the body of each test N times; leaks are what grows after the first",
    )
    add("--ttmem-baseline", metavar="FILE", help="compare the peaks with those in this file")
    add(
        "--ttmem-fail-on-increase",
        metavar="PERCENT",
        help="how much more than the baseline is no failure (default 0%%)",
    )
    add(
        "--ttmem-update-baseline",
        action="store_true",
        help="write the peaks of this run into the baseline",
    )
    add("--ttmem-record", metavar="DIR", help="keep a recording of each test that fails")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Before output is captured: the library can only be preloaded into a new process."""
    asked = _is_asked_for(early_config.known_args_namespace) and not _help_only(early_config)
    if asked and _why_not_here() is not None:
        early_config.stash[_UNCHECKED] = _start_again(early_config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    if not _help_only(config):
        _check_baseline(config)
    if _is_asked_for(config.option) and not _help_only(config):
        if _UNCHECKED in config.stash:
            raise pytest.UsageError(f"--ttmem options need the probe: {config.stash[_UNCHECKED]}")
        _activate(config)


NEEDS_BASELINE = ("--ttmem-fail-on-increase", "--ttmem-update-baseline")


def _check_baseline(config: pytest.Config) -> None:
    """Without a baseline these would do nothing, and pass."""
    options = config.option
    given = (options.ttmem_fail_on_increase is not None, options.ttmem_update_baseline)
    for name, is_given in zip(NEEDS_BASELINE, given, strict=True):
        if is_given and not options.ttmem_baseline:
            raise pytest.UsageError(f"{name} needs --ttmem-baseline FILE")


def _help_only(config: pytest.Config) -> bool:
    known = config.known_args_namespace
    return bool(getattr(known, "help", False) or getattr(known, "version", 0))


def _is_asked_for(options: object) -> bool:
    return any(getattr(options, name, None) for name in OPTIONS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A marker is enough."""
    if _ACTIVE in config.stash or config.option.collectonly:
        return
    if not any(item.get_closest_marker("ttmem") for item in items):
        return
    why = _why_not_here()
    if why is None:
        _activate(config)
    else:
        config.stash[_UNCHECKED] = _start_again(config) or why


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if _UNCHECKED in config.stash:
        terminalreporter.section("ttmem", yellow=True)
        terminalreporter.line(f"limits of markers were not checked: {config.stash[_UNCHECKED]}")


def _activate(config: pytest.Config) -> None:
    from ttmem.measuring.meter import Meter

    config.stash[_ACTIVE] = True
    config.pluginmanager.register(Meter(config), "ttmem-meter")


def _why_not_here() -> str | None:
    """Why this process cannot be measured; None: it can. Loads no more than this needs."""
    import ctypes

    if hasattr(ctypes.PyDLL(None), "ttmem_probe_reset_peaks"):
        return None
    return "the probe is not loaded; " + _ADVICE


_ADVICE = 'run it as `ttmem run -- COMMAND`, or set the variables first: eval "$(ttmem run --env)"'


def _start_again(config: pytest.Config) -> str:
    """Replaces this process by the same command under the probe; why not, if that cannot be."""
    from ttmem.errors import TtmemError
    from ttmem.probe import environment

    if os.environ.get("PYTEST_XDIST_WORKER"):
        return f"a worker of xdist cannot be started again; give --ttmem to pytest, or {_ADVICE}"
    if os.environ.get(AGAIN):
        return "pytest was started again, but the probe was not loaded; `ttmem doctor` says what is wrong"
    if not _is_the_program(config):
        return f"pytest was called by another program (pytest.main), which cannot be started again; {_ADVICE}"
    try:
        variables = environment({"TTMEM_LAUNCHER": str(os.getpid()), **os.environ, AGAIN: "1"})
    except TtmemError as problem:
        return str(problem)
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()
    sys.stdout.flush()
    print("ttmem: pytest starts again, under the probe", file=sys.stderr, flush=True)
    try:
        _become([sys.executable, *sys.orig_argv[1:]], variables)
    except OSError as problem:
        return f"{sys.executable} cannot be started again: {problem.strerror}"


def _become(command: list[str], variables: dict[str, str]) -> NoReturn:
    os.execve(command[0], command, variables)


def _is_the_program(config: pytest.Config) -> bool:
    """Whether this process runs pytest and nothing else: its command line is that of pytest."""
    if tuple(map(str, config.invocation_params.args)) != tuple(sys.argv[1:]):
        return False
    name = sys.argv[0].replace(os.sep, "/")
    return os.path.basename(name) in ("pytest", "py.test") or name.endswith("/pytest/__main__.py")
