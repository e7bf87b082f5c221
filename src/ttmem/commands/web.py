"""Show the memory of this host in a browser, and serve it to programs over HTTP.

    ttmem web                          prints a link to open
    ttmem web --http 127.0.0.1:7417    where to listen
    ttmem web --link                   a link of your own to the page of `ttmem serve --http`

The link contains a token, which stands for you: whoever has it sees what you may see. Programs send it as a
bearer token (`Authorization: Bearer TOKEN`); docs/http-api.md describes the API, and /metrics is for Prometheus.
Command lines and paths of other users are shown to them and to root only.

An address that is not loopback needs --tls-cert and --tls-key, or --insecure.

exit codes: 0 stopped, 1 failed, 2 wrong arguments, 3 no server
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any

from ttmem.commands.options import path, seconds
from ttmem.errors import BadInput, TtmemError

ADDRESS = "127.0.0.1:7417"
MISSING = "ttmem web needs starlette and uvicorn: pip install 'ttmem[web]'"


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--http",
        metavar="ADDR",
        type=path,
        default=ADDRESS,
        help="HOST:PORT to listen on (default %(default)s); port 0: any that is free",
    )
    add("--socket", metavar="PATH", type=path, help="ask only the server at this socket")
    add(
        "--shm",
        metavar="DIR",
        type=path,
        help="ask no server; read shared memory in this directory",
    )
    add("--link", action="store_true", help="ask the server for a link of your own, and print it")
    add(
        "--interval",
        metavar="SECONDS",
        type=partial(seconds, least=0.1, most=60.0),
        default=1.0,
        help="between two looks (default 1)",
    )
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name under which browsers may ask for this page, besides localhost and addresses",
    )
    add(
        "--per-process",
        action="store_true",
        help="/metrics has the memory of processes, by user, program, pod and job",
    )
    add(
        "--public-metrics",
        action="store_true",
        help="/metrics needs no token; it then has no series of processes",
    )
    add("--tls-cert", metavar="FILE", type=path, help="certificate (PEM)")
    add("--tls-key", metavar="FILE", type=path, help="its key (PEM)")
    add("--insecure", action="store_true", help="listen beyond loopback without TLS")
    add("--telemetry", action="store_true", help="add temperature, power and clocks of every card")
    add("--until-eof", action="store_true", help=argparse.SUPPRESS)  # `ttmem serve --http`


def run(options: argparse.Namespace) -> int:
    if options.link:
        return _print_link(options)
    host, port = _address(options.http)
    if bool(options.tls_cert) != bool(options.tls_key):
        raise BadInput("--tls-cert and --tls-key belong together")
    if not (_is_loopback(host) or options.tls_cert or options.insecure):
        raise BadInput(
            f"{host} can be reached from other machines: give --tls-cert and --tls-key, or --insecure"
        )
    try:
        import uvicorn

        from ttmem.web.http.app import Site
    except ImportError as problem:
        raise TtmemError(f"{MISSING} ({problem})") from problem
    from ttmem.web.http.live import Live
    from ttmem.wire.tokens import Tokens

    tokens = Tokens()
    live = Live(_feed(options), options.interval)
    names = [*options.allow_host, *([] if _is_number(host) else [host])]
    listener = _listen(host, port)
    scheme = "https" if options.tls_cert else "http"
    address = f"{scheme}://{_shown(listener.getsockname())}"
    if not options.until_eof:  # else a server has started this one, and says where it is
        print(f"{address}/#token={tokens.issue(os.geteuid())}", flush=True)
        print("ttmem: open this link in a browser; Ctrl-C ends", file=sys.stderr)
    site = Site(
        live,
        tokens,
        partial(_doctor, options),
        per_process=options.per_process,
        register=None if options.shm else partial(_register, options, address, tokens.key),
    )
    config = uvicorn.Config(
        site.app(names, public_metrics=options.public_metrics),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        http="h11",
        loop="asyncio",
        backlog=128,
        limit_concurrency=1024,
        h11_max_incomplete_event_size=16 << 10,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    server = uvicorn.Server(config)
    if options.until_eof:
        threading.Thread(target=_await_eof, args=(server,), daemon=True).start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    except (OSError, ValueError) as problem:  # a certificate that cannot be read
        raise TtmemError(f"cannot serve: {problem}") from problem
    return 0


def _feed(options: argparse.Namespace) -> Any:
    from ttmem.feeds import open_feed

    feed = open_feed(options.socket, options.shm)
    if options.telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        return telemetry_feed(feed)
    return feed


def _await_eof(server: Any) -> None:
    """The server that has started this process holds the other end."""
    while os.read(0, 4096):
        pass
    server.should_exit = True


def _register(options: argparse.Namespace, address: str, key: bytes) -> None:
    """Tells the accounting server where this is, so that it can hand out links to its users."""
    from ttmem.client.query import ServerConnection

    with suppress(TtmemError), ServerConnection(options.socket) as server:
        server.query("web_register", address=address, key=key.hex())


def _doctor(options: argparse.Namespace) -> dict[str, Any]:
    from ttmem.clean import Scope, make_plan
    from ttmem.doctor import document, examine
    from ttmem.sources.host import gather
    from ttmem.sources.shm import counter_directory
    from ttmem.wire.socket_path import socket_path

    folder, server = counter_directory(options.shm), socket_path(options.socket)
    facts = gather(folder, server)
    return document(facts, examine(facts, make_plan(Scope(folder, server))))


def _print_link(options: argparse.Namespace) -> int:
    from ttmem.client.query import ServerConnection

    with ServerConnection(options.socket) as server:
        answer, _ = server.query("web_link")
    print(answer["link"])
    return 0


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise BadInput(f"{text!r:.80} is no address; write HOST:PORT, such as {ADDRESS}")
    return host, int(port)


def _is_number(host: str) -> bool:
    try:
        return bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_number(host) and ipaddress.ip_address(host).is_loopback)


def _shown(address: Any) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(128)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise TtmemError(
            f"cannot listen on {host}:{port}: {why}; choose another with --http"
        ) from problem
    return listener
