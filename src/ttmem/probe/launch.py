"""Starts programs under the probe: the environment that brings it into a command and its children, and the launcher.

=================== ============================================================================
variable            meaning
=================== ============================================================================
``LD_PRELOAD``      the library, beside whatever was preloaded already
``ASAN_OPTIONS``    a program with AddressSanitizer may have the library before its runtime
``TTMEM``           ``0`` keeps a loaded library out of the way; anything else lets it work
``TTMEM_TRACKING``  ``0``: start switched off; `switch` turns it on
``TTMEM_SITES``     ``0``: no call sites
``TTMEM_STACKS``    ``1``: whole Python stacks instead of one line
``TTMEM_EVENTS``    events that the ring holds (default 131072)
``TTMEM_LIVE``      buffers, circular buffers, programs and kernels that may be alive (65536)
``TTMEM_REGION_DIR`` where regions are made (default /dev/shm)
``TTMEM_LOG``       a file for the library's few lines; default standard error
``TTMEM_LAUNCHER``  pid of the `ttmem run` that sums up at the end; it sets this itself
=================== ============================================================================

A command runs transparently: same exit code, signals and terminal. It stays in the process group of its launcher, so
signals from the terminal (Ctrl-C, Ctrl-Z, hang-up) reach both. Signals sent to the launcher alone are passed on.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ttmem.errors import TtmemError

ASAN_VARIABLE, _ORDER = "ASAN_OPTIONS", "verify_asan_link_order"


class NoProbe(TtmemError):
    """The library was not built with this installation."""

    exit_code = 6


def library_path() -> Path:
    """The shared object; `NoProbe` if it is missing."""
    path = Path(__file__).with_name("_library.abi3.so")
    if not path.is_file():
        raise NoProbe(f"{path} is missing; install ttmem again, with a C++ compiler available")
    return path


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` with the probe added: for the command to be watched."""
    library = str(library_path())
    if " " in library or ":" in library:
        raise NoProbe(f"{library} cannot be preloaded: install ttmem in a path without ' ' and ':'")
    preloaded = base.get("LD_PRELOAD", "").replace(":", " ").split()
    if library not in preloaded:
        preloaded.insert(0, library)
    return {
        **base,
        "LD_PRELOAD": ":".join(preloaded),
        "TTMEM": base.get("TTMEM") or "1",
        ASAN_VARIABLE: _with_any_order(base.get(ASAN_VARIABLE, "")),
    }


def _with_any_order(options: str) -> str:
    """A sanitizer's runtime refuses to run unless it is the first library; ours replaces nothing of it."""
    if _ORDER in options:
        return options
    return f"{options}:{_ORDER}=0" if options else f"{_ORDER}=0"


PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
)
_FROM_THE_KERNEL = 0x80  # si_code SI_KERNEL: the terminal signalled the whole process group
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored here, fatal to the command


class CannotRun(TtmemError):
    """The command cannot be started; the code is the shell's."""

    exit_code = 126


class NoSuchCommand(CannotRun):
    exit_code = 127


class Launched:
    """A running command, represented by this process."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        # If it were ignored, the command could not be waited for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        try:
            self.pid = os.posix_spawnp(
                command[0],
                command,
                environment,
                setsigmask=before,
                setsigdef=_CHANGED_BY_PYTHON,
            )
        except OSError as problem:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise _why_not(command[0], problem) from problem
        self._end = select.poll()
        with suppress(OSError):  # without it, the end is noticed a little later
            self._end.register(os.pidfd_open(self.pid), select.POLLIN)

    def wait(self, meanwhile: Callable[[], None], every_s: float) -> int:
        """The exit code, or minus the signal that ended it. `meanwhile` is called again and again."""
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            self._end.poll(1000 * every_s)
            # Never with a time to wait: if it was stopped beyond that time, Python returns a signal that nobody sent.
            while received := signal.sigtimedwait(PASSED_ON, 0):
                self._pass_on(received)
            meanwhile()

    def _pass_on(self, received: signal.struct_siginfo) -> None:
        number = received.si_signo
        if received.si_code != _FROM_THE_KERNEL:
            # It is not reaped yet, so the pid is still its own. The pid of sudo may not be ours to signal.
            with suppress(PermissionError):
                os.kill(self.pid, number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # until somebody sends SIGCONT


def end_like(code: int) -> int:
    """Ends this process with the signal that ended the command; otherwise returns the exit code."""
    if code >= 0:
        return code
    number = -code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # a signal that is ignored by now


def _why_not(name: str, problem: OSError) -> CannotRun:
    if isinstance(problem, FileNotFoundError):
        return NoSuchCommand(f"{name}: no such command; what follows -- is run as given")
    return CannotRun(f"{name} cannot be run: {problem.strerror}")
