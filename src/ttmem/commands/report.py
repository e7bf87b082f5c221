"""Make one page of a recording, to look at and to attach to a bug report.

The page has everything in it: timelines, address maps, what was alive at each peak and failure, call sites, programs.
It opens in any browser, without a server or a network. It names the call sites and the command line of the recording.

  ttmem report run.ttmem
  ttmem report run.ttmem -o report.html --overwrite

exit codes: 0 done, 1 the page could not be written, 2 wrong arguments, or no recording
"""

from __future__ import annotations

import argparse
import os
from contextlib import suppress

from ttmem.commands.options import path, progress_line
from ttmem.errors import BadInput, TtmemError
from ttmem.sizes import human


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="a recording")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=path,
        help="the page to write (default: FILE with .html at its end)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace PATH if it exists")
    parser.add_argument("--quiet", action="store_true", help="no progress line")


def run(options: argparse.Namespace) -> int:
    target = options.output or f"{os.path.splitext(os.path.basename(options.file))[0]}.html"
    write_report(options.file, target, overwrite=options.overwrite, quiet=options.quiet)
    return 0


def write_report(file: str, target: str, *, overwrite: bool, quiet: bool = False) -> None:
    """Says what it wrote. A page under construction has another name, so nobody finds half of one."""
    from ttmem.recording import Recording
    from ttmem.web.report import report

    check_target(target, overwrite=overwrite)
    with Recording(file) as recording:
        info = recording.info()
        text = report(recording, progress_line(info.first, info.end, quiet))
    write_page(target, text)


def check_target(target: str, *, overwrite: bool) -> None:
    """BadInput if it exists and is not to be replaced."""
    if os.path.lexists(target) and not overwrite:
        raise BadInput(
            f"{target} exists; remove it, or name another file (`report` and `diff` have --overwrite)"
        )


def write_page(target: str, text: str) -> None:
    """At once, readable by its owner; says what it wrote."""
    page = text.encode("utf-8", "replace")
    part = f"{target}.part-{os.getpid()}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(page)
        os.replace(part, target)
    except OSError as problem:
        raise TtmemError(f"{target} cannot be written: {problem.strerror}") from None
    finally:
        with suppress(OSError):
            os.unlink(part)
    print(f"{target}: {human(len(page))}, for any browser")
