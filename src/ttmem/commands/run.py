"""Run a command and track every allocation of stock ttnn in it and in its children.

    ttmem run -- python model.py

While it runs, `ttmem top` and `ttmem ps` show its buffers, circular buffers, programs and kernels
with the op and the line of Python that created them. A failed allocation is explained immediately:
what was requested, what is free, the largest free block, and what holds the rest. At the end, a
summary on standard error shows peaks, the lines that caused them, and what was never freed. Exit
code and signals are those of the command.

Where the command line cannot be changed (MPI, pytest, a notebook), environment variables have the
same effect, without the summary, and with two lines per failed allocation: eval "$(ttmem run --env)"

exit codes: those of the command; 2 wrong arguments, 6 the probe was not built, 126 the command
cannot be run, 127 there is no such command
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import suppress

from ttmem.clock import now_ns
from ttmem.errors import BadInput

LOOK_EVERY_S = 0.1
LOG_VARIABLE = "TTMEM_LOG"


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-sites", action="store_true", help="do not record the op and the line of Python"
    )
    parser.add_argument(
        "--stacks", action="store_true", help="record whole Python stacks instead of one line"
    )
    parser.add_argument(
        "--events", metavar="N", type=int, help="events the ring can hold (default 131072)"
    )
    parser.add_argument(
        "--live",
        metavar="N",
        type=int,
        help="buffers, circular buffers, programs and kernels that can be alive at once (default 65536)",
    )
    parser.add_argument(
        "--shm", metavar="DIR", help="create regions in this directory (default /dev/shm)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="record everything to this file (%%p pid, %%h host, %%r MPI rank); `ttmem top FILE` shows it",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--confidential",
        action="store_true",
        help="leave command lines and directories out of the recording",
    )
    parser.add_argument("--log", metavar="FILE", help="write the probe's own messages to this file")
    parser.add_argument(
        "--log-kernels",
        action="store_true",
        help="print a line for each kernel load, with the calling frames (turns --stacks on)",
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print neither failed allocations nor a summary"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--env", action="store_true", help="run nothing: print the variables for a shell to eval"
    )
    instead.add_argument(
        "--print-preload", action="store_true", help="run nothing: print the path of the library"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run, after --")


def run(options: argparse.Namespace) -> int:
    from ttmem.probe import environment, library_path

    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    variables = _variables(options)
    if options.print_preload or options.env:
        if command:
            raise BadInput("--env and --print-preload run no command")
        if options.log_kernels:
            raise BadInput(
                "--log-kernels is printed by `ttmem run` itself; it needs a command to run"
            )
        print(_exports(environment(_kept()) | variables) if options.env else library_path())
        return 0
    if options.output is None and (options.overwrite or options.confidential):
        raise BadInput("--overwrite and --confidential are for a recording; give -o FILE, too")
    if not command:
        raise BadInput("no command; write it after --: ttmem run -- python model.py")
    ours = {"TTMEM": "1", "TTMEM_LAUNCHER": str(os.getpid())}
    return _run(command, environment({**os.environ, **variables, **ours}), options)


def _run(command: list[str], variables: dict[str, str], options: argparse.Namespace) -> int:
    from ttmem.commands.run_watch import RunWatch
    from ttmem.probe.launch import Launched, end_like

    heard = sys.stderr is not None  # None after `2>&-`
    watch = RunWatch(
        variables["TTMEM_REGION_DIR"],
        now_ns(),
        quiet=options.quiet or not heard,
        kernels=options.log_kernels and heard,
    )
    recording = None
    told = heard and not options.quiet
    if options.output is not None or told:
        from ttmem.commands.record import RunRecording

        recording = RunRecording(command, options)
    launched = Launched(command, variables)
    watch.begin()

    def look() -> None:
        watch.look()
        if recording is not None:
            recording.poll()

    code = launched.wait(look, LOOK_EVERY_S)
    outcome = recording.close() if recording is not None else None
    watch.end(recording.recording if recording is not None and told else None)
    if outcome and told:
        print(f"ttmem: {outcome}", file=sys.stderr)
    return _without_leak_check(end_like(code))


def _without_leak_check(code: int) -> int:
    """Where a sanitizer is preloaded, it is in this Python too, whose leaks would change the exit code."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    return code


def _kept() -> dict[str, str]:
    """What a shell has that is added to, not replaced."""
    from ttmem.probe.library import ASAN_VARIABLE

    given = os.environ.get(ASAN_VARIABLE)
    return {ASAN_VARIABLE: given} if given else {}


def _variables(options: argparse.Namespace) -> dict[str, str]:
    """Only for the options given; for the others, the environment applies."""
    given = {
        "TTMEM_SITES": "0" if options.no_sites else None,
        "TTMEM_STACKS": "1" if _stacks(options) else None,
        "TTMEM_EVENTS": _positive("--events", options.events),
        "TTMEM_LIVE": _positive("--live", options.live),
        "TTMEM_REGION_DIR": _folder(options.shm),
        LOG_VARIABLE: _log(options),
    }
    return {name: value for name, value in given.items() if value is not None}


def _stacks(options: argparse.Namespace) -> bool:
    """--log-kernels needs whole stacks, unless call sites are switched off."""
    return bool(options.stacks or (options.log_kernels and not options.no_sites))


def _positive(name: str, number: int | None) -> str | None:
    if number is not None and not 64 <= number <= 1 << 24:
        raise BadInput(f"{name} must be between 64 and {1 << 24}")
    return None if number is None else str(number)


def _folder(given: str | None) -> str:
    """The same as for `ttmem ps` and `top`, by the same variables."""
    from ttmem.sources.shm import check_directories, probe_directory

    check_directories(given)
    return os.path.abspath(probe_directory(given))


def _log(options: argparse.Namespace) -> str | None:
    if options.log is not None:
        _check_log(f"--log {options.log}", options.log)
        return str(os.path.abspath(options.log))
    given = os.environ.get(LOG_VARIABLE)
    if given:
        _check_log(f"{LOG_VARIABLE}={given}", given)
    return os.devnull if options.quiet else None


def _check_log(how: str, path: str) -> None:
    """Done here, because the library could not report that it has nowhere to report to."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.exists(path):
        usable = not os.path.isdir(path) and os.access(path, os.W_OK)
    else:
        usable = bool(path) and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
    if not usable:
        raise BadInput(f"{how} cannot be written; it names the file for the probe's own lines")


def _exports(variables: dict[str, str]) -> str:
    library = shlex.quote(variables.pop("LD_PRELOAD"))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    return "\n".join([f'export LD_PRELOAD={library}"${{LD_PRELOAD:+:$LD_PRELOAD}}"', *lines])
