"""Runs a command as if nobody were in between: its exit code, its signals, its terminal.

The command stays in the process group of its launcher, so the terminal's own signals (Ctrl-C, Ctrl-Z, hang-up) reach
both without help. What somebody sends to the launcher alone is passed on.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from ttmem.errors import TtmemError

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
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored in here, deadly in the command


class CannotRun(TtmemError):
    """The command cannot be started; the code is the shell's."""

    exit_code = 126


class NoSuchCommand(CannotRun):
    exit_code = 127


class Launched:
    """A command that runs, and this process as its stand-in."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, nobody could wait for the command
        self._awaited = {*PASSED_ON, signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._awaited)
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

    def wait(self, meanwhile: Callable[[], None], every_s: float) -> int:
        """The exit code, or minus the signal that ended it. `meanwhile` is called again and again."""
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            received = signal.sigtimedwait(self._awaited, every_s)
            if received is not None:
                self._pass_on(received)
            meanwhile()

    def _pass_on(self, received: signal.struct_siginfo) -> None:
        number = received.si_signo
        if number == signal.SIGCHLD:
            return
        if received.si_code != _FROM_THE_KERNEL:
            # It is not reaped yet, so the pid is still its own; sudo's may not be ours to signal.
            with suppress(PermissionError):
                os.kill(self.pid, number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # until somebody sends SIGCONT


def end_like(code: int) -> int:
    """Ends this process by the signal that ended the command; else the exit code to end with."""
    if code >= 0:
        return code
    number = -code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # a signal that is harmless by now


def _why_not(name: str, problem: OSError) -> CannotRun:
    if isinstance(problem, FileNotFoundError):
        return NoSuchCommand(f"{name}: no such command; what follows -- is run as given")
    return CannotRun(f"{name} cannot be run: {problem.strerror}")
