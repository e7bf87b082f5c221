"""Answer a monitor on another host over standard input and output; run over SSH by `--host`.

It connects the monitor to the server (`ttmem serve`) of this host, or reads shared memory if none runs.

exit codes: 0 the other side closed the connection, 2 wrong arguments
"""

from __future__ import annotations

import argparse
import sys

from ttmem.commands.options import add_place_options
from ttmem.errors import BadInput


def prepare(parser: argparse.ArgumentParser) -> None:
    add_place_options(parser)


def run(options: argparse.Namespace) -> int:
    if sys.stdin is None or sys.stdin.isatty():
        raise BadInput("ttmem relay is for programs; `ttmem top --host USER@BOX` runs it there")
    from ttmem.feeds.remote_feed import relay

    relay(options.socket, options.shm)
    return 0
