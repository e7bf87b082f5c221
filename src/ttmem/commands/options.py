"""Options that several verbs share."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from ttmem.errors import BadInput
from ttmem.sizes import parse_size


def path(text: str) -> str:
    """Rejects an empty path, such as an unset variable gives: it would be taken for the default."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; leave out the option to use the default")
    return text


def size(text: str) -> int:
    """'64 KiB' -> bytes."""
    try:
        return parse_size(text)
    except BadInput as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def seconds(text: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds from {least:g} to {most:g}"
        )
    return number


def add_source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=path,
        help="show this recording instead of the present",
    )
    parser.add_argument(
        "--at",
        metavar="WHEN",
        type=path,
        help="with FILE: the instant to show: 12.5s or 2m30s after the start, end (default), peak:l1, oom, 14:05:30",
    )
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help="ask only the server at this socket"
    )
    parser.add_argument(
        "--shm",
        metavar="DIR",
        type=path,
        help="ask no server; read the counters of stock ttnn in this directory",
    )


def add_umd_option(parser: argparse.ArgumentParser) -> None:
    """The only option that makes ttmem touch a chip."""
    parser.add_argument(
        "--umd",
        action="store_true",
        help="also ask the user-mode driver, which accesses the chips, for their harvesting"
        " and the sensors of remote chips",
    )


def add_telemetry_options(parser: argparse.ArgumentParser) -> None:
    """Whether to read sensors, and from where."""
    parser.add_argument(
        "--telemetry",
        action="store_true",
        help="add temperature, power, clocks, ... of every card, from the driver, without accessing a chip",
    )
    add_umd_option(parser)
    parser.add_argument(
        "--sysfs",
        metavar="DIR",
        type=path,
        help="with --telemetry: where sysfs is mounted (default /sys, or TTMEM_SYSFS)",
    )


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        "--devices",
        metavar="ID",
        action="extend",
        type=_ids,
        default=[],
        help="only this device: logical or unique id, or T1:N3 on a Galaxy; separate several with commas, or repeat",
    )
    parser.add_argument(
        "--pid", metavar="PID", type=int, action="append", default=[], help="only this process"
    )


def add_color_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-color", action="store_true", help="no colour, like NO_COLOR=1")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    add_color_option(parser)


def add_snapshot_options(parser: argparse.ArgumentParser) -> None:
    """For verbs that print a snapshot: where it comes from, and what of it to show."""
    add_source_options(parser)
    add_choice_options(parser)
    add_output_options(parser)


def _ids(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError("it names no device")
    return found


def progress_line(first: int, last: int, quiet: bool) -> Callable[[int], None]:
    """Shows on stderr which position was reached, a few times a second; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        return lambda position: None
    total, shown = max(1, last - first), 0.0

    def show(position: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= 0.2:
            shown = now
            print(f"\r{(position - first) / total:4.0%}", end="\r", file=sys.stderr, flush=True)

    return show
