"""What several verbs share: options, what they name, and how answers are printed."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from ttmem.errors import BadInput, TtmemError
from ttmem.sizes import parse_size
from ttmem.text import clean
from ttmem.views.terminal import as_json, spelled, terminal_size, wants_color, width

if TYPE_CHECKING:
    from ttmem.feeds import Feed
    from ttmem.hw.umd import Discovery
    from ttmem.recording import Instant, Recording
    from ttmem.views.ink import Line

SIZE_OF_A_PIPE = (120, 40)  # columns and lines of a screen that is printed


def flag(parser: argparse._ActionsContainer, name: str, about: str) -> None:
    parser.add_argument(name, action="store_true", help=about)


def path(text: str) -> str:
    """Rejects an empty path, as from an unset variable, which would select the default."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; omit the option to use the default")
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


@contextmanager
def open_recording(file: str) -> Iterator[Recording]:
    """Warns on standard error if the file was not closed or is damaged."""
    from ttmem.recording import Recording

    with Recording(file) as recording:
        if (text := recording.unfinished) and sys.stderr is not None:
            print(f"ttmem: {clean(file)}: {clean(text)}", file=sys.stderr)
        yield recording


def part_begins(recording: Recording, when: str) -> Instant:
    """Where --from says; BadInput if the recording has no such instant."""
    instant = recording.instant(when)
    if instant.remark.startswith("the recording has no instant") and instant.position > 0:
        raise BadInput(f"--from {when}: {instant.remark.removesuffix(', which is shown')}")
    return instant


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP leave through every `with`, as Ctrl-C does: what is half done is removed on the way."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    wanted = (signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.getsignal(n) for n in wanted if signal.getsignal(n) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def add_overwrite(parser: argparse.ArgumentParser, output: str = "FILE") -> None:
    flag(parser, "--overwrite", f"replace {output} if it exists")


def check_output(output: str, *inputs: str, overwrite: bool) -> None:
    """BadInput if it exists and may not be replaced, or is a recording that is to be read."""
    for file in inputs:
        if os.path.exists(output) and os.path.exists(file) and os.path.samefile(file, output):
            raise BadInput(f"{output} is the recording itself; name another file with -o")
    if os.path.lexists(output) and not overwrite:
        raise BadInput(f"{output} exists; --overwrite replaces it, or name another file with -o")


def add_recording_options(parser: argparse.ArgumentParser) -> None:
    """For verbs that write a recording to FILE."""
    add_overwrite(parser)
    flag(parser, "--confidential", "leave command lines and directories out of the recording")


def add_check_options(parser: argparse.ArgumentParser, option: str | None = None) -> None:
    """What a leak check ignores; `option` asks for the check, where a verb does something else as well."""
    less = "growth of less than this in the iterations that are judged"
    phase = "what this phase allocates"
    if option is not None:
        less, phase = "call sites that hold less than this", "what this phase allocated"
    ignore = "ignore" if option is None else f"with {option}: ignore"
    add = parser.add_argument
    add("--min-bytes", metavar="SIZE", type=size, default=0, help=f"{ignore} {less}")
    add(
        "--ignore-phase",
        metavar="NAME",
        action="append",
        default=[],
        help=f"{ignore} {phase}; may be repeated",
    )


def drawn(options: argparse.Namespace, draw: Callable[..., str]) -> str:
    """Text for standard output."""
    return drawn_for(sys.stdout, draw, plain=options.no_color)


def drawn_for(out: TextIO, draw: Callable[..., str], *, plain: bool = False) -> str:
    """`draw` is told the width of this stream, and whether it has colours."""
    return spelled(draw(width=width(out), color=wants_color(out, plain)), out)


def print_answer(
    options: argparse.Namespace, document: Callable[[], object], draw: Callable[..., str]
) -> None:
    """As JSON with --json, else as text."""
    if options.json:
        print(as_json(document(), sys.stdout.isatty()))
    else:
        print(drawn(options, draw))


def add_recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=path, help="a recording")


def add_source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=path,
        help="show this recording instead of the current state",
    )
    parser.add_argument(
        "--at",
        metavar="WHEN",
        type=path,
        help="with FILE: the time to show: 12.5s or 2m30s after the start, end, peak:l1, oom,"
        " oom:last, 14:05:30",
    )
    add_place_options(parser)


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Where to read the present: from a server, or from shared memory."""
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help="ask only the server at this socket"
    )
    parser.add_argument(
        "--shm",
        metavar="DIR",
        type=path,
        help="ask no server; read the shared memory of ttnn and of the probe in this directory",
    )


def named_feed(options: argparse.Namespace, *, once: bool) -> Feed:
    """What FILE and --at, --socket or --shm name. `once`: it is read only once."""
    from ttmem.feeds import open_feed

    found: Discovery | None = None
    if options.umd:
        from ttmem.hw.umd import discovery

        found = discovery(wanted=True, once=once)
    return open_feed(options.socket, options.shm, file=options.file, at=options.at, discovery=found)


def at_last_use(feed: Feed, options: argparse.Namespace) -> str:
    """Seeks in a recording to where memory was allocated, and says so unless that is the end."""
    if options.file is None or options.at is not None:
        return ""
    from ttmem.feeds import RecordingFeed

    return feed.go_to_last_use() if isinstance(feed, RecordingFeed) else ""


def add_umd_option(parser: argparse.ArgumentParser) -> None:
    """The only option that makes ttmem touch a chip."""
    flag(
        parser,
        "--umd",
        "also ask the user-mode driver, which accesses the chips, for their harvesting"
        " and the sensors of remote chips",
    )


def add_telemetry_options(parser: argparse.ArgumentParser) -> None:
    flag(
        parser,
        "--telemetry",
        "add temperature, power and clocks of every card, as the driver reports them; no chip is accessed",
    )
    add_umd_option(parser)
    parser.add_argument(
        "--sysfs",
        metavar="DIR",
        type=path,
        help="with --telemetry: where sysfs is mounted (default /sys, or TTMEM_SYSFS)",
    )


def with_telemetry(feed: Feed, options: argparse.Namespace, *, once: bool) -> Feed:
    """As `add_telemetry_options` says."""
    if not options.telemetry:
        return feed
    from ttmem.feeds.telemetry import telemetry_feed

    return telemetry_feed(feed, options.sysfs, umd=options.umd, settled=once)


def add_compat_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--compat",
        choices=("tt-exporter",),
        help="also use the metric names of this exporter, for dashboards made for it",
    )


def add_device_option(parser: argparse.ArgumentParser, ids: str) -> None:
    parser.add_argument(
        "--device",
        "--devices",
        metavar="ID",
        action="extend",
        type=_ids,
        default=[],
        help=f"only this device: {ids}; separate several with commas, or repeat",
    )


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    add_device_option(parser, "logical or unique id, or T1:N3 on a Galaxy")
    parser.add_argument(
        "--pid", metavar="PID", type=int, action="append", default=[], help="only this process"
    )


def add_color_option(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--no-color", "no colour, like NO_COLOR=1")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    flag(parser, "--json", "print JSON instead of text")
    add_color_option(parser)


def add_snapshot_options(parser: argparse.ArgumentParser) -> None:
    """For verbs that print a snapshot: its source, and the selection."""
    add_source_options(parser)
    add_choice_options(parser)
    add_output_options(parser)


def _ids(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError("no device is named")
    return found


def repeat(
    seconds: float, act: Callable[[], None], complain: Callable[[TtmemError, str], str]
) -> None:
    """Acts at this interval. `complain` raises what will not go away, or returns what it said; it is told what it
    said about the last failure if nothing has succeeded since."""
    said = ""
    while True:
        began = time.monotonic()
        try:
            act()
            said = ""
        except TtmemError as problem:
            said = complain(problem, said)
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))


def progress_line(first: int, last: int, quiet: bool) -> Callable[[int], None]:
    """Shows progress on standard error a few times a second, if it is a terminal."""
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


def print_screen(options: argparse.Namespace, screen: Callable[[int, int], list[Line]]) -> None:
    """One page of the monitor as text."""
    from ttmem.views.ink import paint

    columns, lines = terminal_size(SIZE_OF_A_PIPE)
    color = wants_color(sys.stdout, options.no_color)
    print(paint(screen(columns, lines), columns, color).rstrip("\n"))


def check_terminal() -> None:
    """Raises BadInput, which says what to use instead, where the live monitor cannot run."""
    instead = "use `ttmem top --once` to print a page as text, or `ttmem ps --watch`"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(f"the live monitor needs a terminal; {instead}")
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        raise BadInput(f"this terminal (TERM) cannot move the cursor; {instead}")
