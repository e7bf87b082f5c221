"""The command line: one module per verb. A new verb is a new file and an entry in VERBS."""

from __future__ import annotations

import argparse
import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from ttmem.errors import BadInput, TtmemError
from ttmem.text import wrap
from ttmem.version import __version__
from ttmem.views.terminal import terminal_size

VERBS = (  # in the order of the help
    "demo",
    "top",
    "ps",
    "run",
    "serve",
    "dump",
    "analysis.explain",
    "recording.record",
    "recording.mark",
    "recording.info",
    "recording.cut",
    "recording.export",
    "metrics",
    "analysis.peak",
    "analysis.leaks",
    "analysis.diff",
    "analysis.size",
    "web",
    "recording.report",
    "mcp",
    "doctor",
    "clean",
    "simulate",
    "relay",
)
MODULES = {path.rpartition(".")[2]: path for path in VERBS}

QUICK = ("ps", "dump")  # they print and end
NO_TEARDOWN = (*QUICK, "serve")
SILENT = ("run", "serve")  # they work without standard output
# Such as a full disk.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def program() -> NoReturn:
    """The whole process.

    Verbs that only print are made faster: fewer garbage collections while modules load, and no teardown of the
    interpreter, which takes 20 ms. A server's takes 40 ms of CPU time, most of what it needs to stop.
    """
    verb = sys.argv[1] if len(sys.argv) > 1 else ""
    if verb in QUICK:
        gc.set_threshold(1_000_000)
    code = main()
    if verb in NO_TEARDOWN:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None if closed
                stream.flush()
        os._exit(code)
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb. Errors are printed as one line, and each kind has its exit code."""
    try:
        options = _options(arguments)
        if sys.stdout is None and options.verb not in SILENT:
            raise TtmemError("standard output is closed, so there is no place for an answer")
        code: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except TtmemError as problem:
        _complain(str(problem))
        return problem.exit_code
    except MemoryError:
        _complain(
            "there is not enough memory for this; close other programs, or choose a smaller range"
        )
        return TtmemError.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()  # the reader (head, less) is gone
        return 141
    except OSError as problem:
        if problem.errno not in UNWRITABLE or problem.filename is not None:
            raise
        _drop_output()
        _complain(f"the answer could not be written: {problem.strerror}")
        return TtmemError.exit_code
    return code


def _complain(problem: str) -> None:
    if sys.stderr is not None:  # else `print` would use standard output
        print(f"ttmem: {problem}", file=sys.stderr)


def _drop_output() -> None:
    """Discards pending output, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    given = sys.argv[1:] if arguments is None else arguments
    if given and not given[0].startswith("-") and given[0] not in MODULES:
        raise BadInput(_no_verb(given[0]))
    # If the first argument is a verb, the others are not loaded, which saves 100 ms.
    parser = _parser(given[:1] if given[:1] and given[0] in MODULES else [*MODULES])
    options, strangers = parser.parse_known_args(given)
    if not hasattr(options, "run"):
        parser.print_help()
        sys.exit(2)
    if strangers:  # the usage of the verb helps more than that of ttmem
        options.parser.error(f"unrecognized arguments: {' '.join(strangers)}")
    return options


def _no_verb(given: str) -> str:
    from difflib import get_close_matches

    from ttmem.text import clean  # not above: `ttmem.commands.clean` is a verb

    close = get_close_matches(given, MODULES, n=1)
    meant = f"did you mean `ttmem {close[0]}`? " if close else ""
    return f"there is no verb {clean(given)!r:.60}; {meant}`ttmem --help` lists them"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Created for every option, even if no help is wanted, so the width is determined cheaply."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_size().columns - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wraps each paragraph, except for examples, which are indented."""
        paragraphs = (
            part if part.startswith(" ") else "\n".join(wrap(" ".join(part.split()), width))
            for part in text.split("\n\n")
        )
        return "\n\n".join(paragraphs)


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ttmem",
        description="Shows who uses the memory of Tenstorrent accelerators.",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"ttmem {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", prog="ttmem")
    for name in names:
        module = import_module(f"ttmem.commands.{MODULES[name]}")
        summary = (module.__doc__ or "").strip()
        verb = verbs.add_parser(
            name,
            help=summary.splitlines()[0],
            description=summary,
            formatter_class=_Help,
        )
        module.prepare(verb)
        verb.set_defaults(run=module.run, parser=verb, verb=name)
    return parser
