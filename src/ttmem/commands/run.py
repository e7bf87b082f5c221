"""Run a command and track every allocation that stock ttnn makes in it and its children.

    ttmem run -- python model.py

While it runs, `ttmem top` and `ttmem ps` show its buffers, circular buffers, programs and kernels
with the op and the line of Python that created them. A failed allocation is explained immediately:
what was requested, what is free, the largest free block, and what holds the rest. At the end, a
summary on standard error shows peaks, the lines that caused them, and what was never freed. The exit
code is that of the command, and signals are passed on.

--check-leaks also judges whether memory grew from iteration to iteration (see `ttmem leaks --help`), and
exits with 1 if the command succeeded but leaks, if a process that was killed or ended by _exit left
memory, or if there is no verdict: memory was never freed and the run was too short, or no process opened
a device under the probe.

Where the command line cannot be changed (MPI, pytest, a notebook), set environment variables instead:
eval "$(ttmem run --env)". There is no summary then, and two lines per failed allocation.

exit codes: those of the command; 1 the check of --check-leaks failed, 2 wrong arguments, 6 the probe was
not built, 126 the command cannot be run, 127 there is no such command
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import suppress

from ttmem.clock import now_ns
from ttmem.commands.options import add_check_options, add_recording_options, flag
from ttmem.errors import BadInput

LOOK_EVERY_S = 0.1
LOG_VARIABLE = "TTMEM_LOG"


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    flag(parser, "--no-sites", "do not record the op and the line of Python")
    flag(parser, "--stacks", "record whole Python stacks instead of one line")
    add("--events", metavar="N", type=int, help="size of the ring, in events (default 131072)")
    add(
        "--live",
        metavar="N",
        type=int,
        help="buffers, circular buffers, programs and kernels that can be alive at once (default 65536)",
    )
    add("--shm", metavar="DIR", help="create regions in this directory (default /dev/shm)")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="record everything to this file (%%p pid, %%h host, %%r MPI rank); `ttmem top FILE` shows it",
    )
    add_recording_options(parser)
    add("--log", metavar="FILE", help="write the probe's own messages to this file")
    flag(
        parser,
        "--log-kernels",
        "print a line for each kernel load, with the calling frames (implies --stacks)",
    )
    flag(parser, "--quiet", "print neither failed allocations nor a summary")
    flag(
        parser,
        "--check-leaks",
        "exit with 1 if the command succeeds but leaks, or if there is no verdict",
    )
    add_check_options(parser, "--check-leaks")
    instead = parser.add_mutually_exclusive_group()
    flag(instead, "--env", "run nothing; print the variables for a shell to eval")
    flag(instead, "--print-preload", "run nothing; print the path of the library")
    add("command", nargs=argparse.REMAINDER, help="the command to run, after --")


def run(options: argparse.Namespace) -> int:
    from ttmem.probe import environment, library_path

    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    variables = _variables(options)
    if options.print_preload or options.env:
        if command:
            raise BadInput("--env and --print-preload run no command")
        if options.log_kernels:
            raise BadInput("--log-kernels needs a command to run")
        print(_exports(environment(_kept()) | variables) if options.env else library_path())
        return 0
    if options.output is None and (options.overwrite or options.confidential):
        raise BadInput("--overwrite and --confidential need -o FILE")
    if not options.check_leaks and (options.min_bytes or options.ignore_phase):
        raise BadInput("--min-bytes and --ignore-phase are for --check-leaks; give that as well")
    if not command:
        raise BadInput("no command; give it after --: ttmem run -- python model.py")
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
    if options.output is not None or told or options.check_leaks:
        from ttmem.commands.recording.record import RunRecording

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
        print(outcome, file=sys.stderr)
    if recording is not None and options.check_leaks:
        from ttmem.analysis.leftovers import Ignored

        limits = Ignored(options.min_bytes, frozenset(options.ignore_phase))
        if not watch.passes_leak_check(recording.recording, limits, {launched.pid: code}):
            code = code or 1
    return _without_leak_check(end_like(code))


def _without_leak_check(code: int) -> int:
    """A preloaded sanitizer also runs in this Python, whose own leaks would change the exit code."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)
    return code


def _kept() -> dict[str, str]:
    """Variables to which --env appends instead of replacing them."""
    from ttmem.probe.launch import ASAN_VARIABLE

    given = os.environ.get(ASAN_VARIABLE)
    return {ASAN_VARIABLE: given} if given else {}


def _variables(options: argparse.Namespace) -> dict[str, str]:
    """For the options that were given; otherwise the environment applies."""
    # --log-kernels needs whole stacks, unless call sites are off.
    stacks = options.stacks or (options.log_kernels and not options.no_sites)
    given = {
        "TTMEM_SITES": "0" if options.no_sites else None,
        "TTMEM_STACKS": "1" if stacks else None,
        "TTMEM_EVENTS": _positive("--events", options.events),
        "TTMEM_LIVE": _positive("--live", options.live),
        "TTMEM_REGION_DIR": _folder(options.shm),
        LOG_VARIABLE: _log(options),
    }
    return {name: value for name, value in given.items() if value is not None}


def _positive(name: str, number: int | None) -> str | None:
    if number is not None and not 64 <= number <= 1 << 24:
        raise BadInput(f"{name} must be between 64 and {1 << 24}")
    return None if number is None else str(number)


def _folder(given: str | None) -> str:
    """The directory that `ttmem ps` and `top` read, from the same variables."""
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
    """Checked here, because the library would have nowhere to report the problem."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.exists(path):
        usable = not os.path.isdir(path) and os.access(path, os.W_OK)
    else:
        usable = bool(path) and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
    if not usable:
        raise BadInput(f"{how} cannot be written; it names the file for the probe's own messages")


def _exports(variables: dict[str, str]) -> str:
    library = shlex.quote(variables.pop("LD_PRELOAD"))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables.items())]
    return "\n".join([f'export LD_PRELOAD={library}"${{LD_PRELOAD:+:$LD_PRELOAD}}"', *lines])
