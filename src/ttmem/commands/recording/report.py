"""Write a recording as a single HTML page, to view or to attach to a bug report.

The page shows timelines, address maps, what was alive at each peak and failure, call sites and programs. It is
self-contained: any browser opens it, without a server or network. Call sites and the command line are included.

  ttmem report run.ttmem
  ttmem report run.ttmem -o report.html --overwrite

exit codes: 0 done, 1 the page could not be written, 2 wrong arguments, or not a recording
"""

from __future__ import annotations

import argparse
import os
from contextlib import suppress

from ttmem.commands.options import (
    add_overwrite,
    add_recording,
    check_output,
    flag,
    open_recording,
    path,
    progress_line,
)
from ttmem.errors import TtmemError
from ttmem.sizes import human


def prepare(parser: argparse.ArgumentParser) -> None:
    add_recording(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        type=path,
        help="the page to write (default: FILE with .html appended)",
    )
    add_overwrite(parser, "PATH")
    flag(parser, "--quiet", "no progress line")


def run(options: argparse.Namespace) -> int:
    target = options.output or f"{os.path.splitext(os.path.basename(options.file))[0]}.html"
    write_report(options.file, target, overwrite=options.overwrite, quiet=options.quiet)
    return 0


def write_report(file: str, target: str, *, overwrite: bool, quiet: bool = False) -> None:
    """Makes the page; it gets its name when it is complete."""
    from ttmem.web.report import report

    check_output(target, file, overwrite=overwrite)
    with open_recording(file) as recording:
        info = recording.info()
        text = report(recording, progress_line(info.first, info.end, quiet))
    write_page(target, text)


def write_page(target: str, text: str) -> None:
    """Writes it atomically, mode 0600, and says how large it is."""
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
