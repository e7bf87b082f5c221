"""Set a marker in what the server records, and keep the minutes around it.

    ttmem mark "latency doubled"

Needs `ttmem serve --record DIR` of the same user, or root. A minute later the server copies the two minutes
before the mark and the minute after it into a recording of their own in DIR, and names it in its log.

exit codes: 0 done, 1 refused, or the server does not record, 3 no server
"""

from __future__ import annotations

import argparse

from ttmem.commands.options import path
from ttmem.wire.socket_path import socket_path


def prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="what the marker says")
    parser.add_argument(
        "--socket", metavar="PATH", type=path, help=f"the server's socket (default {socket_path()})"
    )


def run(options: argparse.Namespace) -> int:
    from ttmem.client.query import ServerConnection

    with ServerConnection(options.socket) as server:
        server.query("mark", text=options.text)
    print("marked")
    return 0
