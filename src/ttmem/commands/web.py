"""Show this host's memory or a recording in a browser, and serve it over HTTP.

    ttmem web                          prints a link to open
    ttmem web run.ttmem                the same page, with this recording
    ttmem web --http 127.0.0.1:7417    where to listen
    ttmem web --prometheus URL         adds a page of all hosts that a Prometheus scrapes
    ttmem web --link                   prints your own link to the page of `ttmem serve --http`
    ttmem web --key-file KEY --metrics-token
                                       prints a token for Prometheus, which opens /metrics alone

The link contains a token that identifies you: anyone who has it sees what you can see. Programs send it as a
bearer token (`Authorization: Bearer TOKEN`). docs/http-api.md describes the API; /metrics is for Prometheus.
Command lines and paths are shown only to their owner and to root.

The page can go back through the last hour and open recordings. FILE is visible only to you and root; other
recordings can be dropped onto the page.

Addresses other than loopback need --tls-cert and --tls-key, or --insecure.

exit codes: 0 stopped, 1 failed, 2 wrong arguments, 3 no server
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ttmem.commands.options import add_compat_option, add_place_options, flag, path, seconds, size
from ttmem.errors import BadInput, TtmemError
from ttmem.own_python import installing

if TYPE_CHECKING:
    from ttmem.feeds import PastFeed
    from ttmem.web.http.fleet import FleetPages

ADDRESS = "127.0.0.1:7417"
MAX_UPLOAD = 256 << 20


def prepare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", type=path, nargs="?", help="a recording to show")
    add(
        "--http",
        metavar="ADDR",
        type=path,
        default=ADDRESS,
        help="HOST:PORT to listen on (default %(default)s); port 0: any free port",
    )
    add_place_options(parser)
    flag(parser, "--link", "ask the server for your own link, and print it")
    flag(
        parser,
        "--metrics-token",
        "print the token that opens /metrics wherever the key of --key-file is used",
    )
    add_http_options(parser)
    flag(parser, "--until-eof", argparse.SUPPRESS)  # `ttmem serve --http`


def add_http_options(parser: argparse._ActionsContainer) -> None:
    """For this verb and for `ttmem serve --http`, which passes them on."""
    add = parser.add_argument
    add(
        "--prometheus",
        metavar="URL",
        type=path,
        help="also serve a page of all hosts that this Prometheus scrapes, at /fleet (docs/fleet.md)",
    )
    add(
        "--interval",
        metavar="SECONDS",
        type=partial(seconds, least=0.1, most=60.0),
        default=1.0,
        help="time between updates (default 1)",
    )
    flag(parser, "--telemetry", "add temperature, power and clocks of every card")
    add(
        "--key-file",
        metavar="FILE",
        type=path,
        help="make tokens with the key in this file, so that they outlast a restart; created if missing, mode 0600",
    )
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a host name by which browsers may open this page, besides localhost and IP addresses",
    )
    flag(
        parser,
        "--per-process",
        "add the memory of processes to /metrics, by user, program, pod and job",
    )
    add_compat_option(parser)
    flag(parser, "--public-metrics", "serve /metrics without a token, and without processes")
    add(
        "--max-upload",
        metavar="SIZE",
        type=size,
        default=MAX_UPLOAD,
        help="the largest recording that may be dropped onto the page (default 256 MiB; 0: none)",
    )
    add("--tls-cert", metavar="FILE", type=path, help="certificate (PEM)")
    add("--tls-key", metavar="FILE", type=path, help="private key (PEM)")
    flag(parser, "--insecure", "listen beyond loopback without TLS")


def http_arguments(options: argparse.Namespace) -> list[str]:
    """The options to pass on to `ttmem web`: those that are not the defaults."""
    parser = argparse.ArgumentParser(add_help=False)
    add_http_options(parser)
    arguments: list[str] = []
    for name, default in vars(parser.parse_args([])).items():
        given, option = getattr(options, name), f"--{name.replace('_', '-')}"
        if given is True:
            arguments.append(option)
        elif given != default:
            several = given if isinstance(given, list) else [given]
            arguments += [f"{option}={value}" for value in several]
    return arguments


def checked_address(options: argparse.Namespace) -> tuple[str, int]:
    host, port = _address(options.http)
    if bool(options.tls_cert) != bool(options.tls_key):
        raise BadInput("--tls-cert and --tls-key must be given together")
    if not (_is_loopback(host) or options.tls_cert or options.insecure):
        raise BadInput(
            f"{host} can be reached from other machines: give --tls-cert and --tls-key, or --insecure"
        )
    return host, port


def run(options: argparse.Namespace) -> int:
    if options.link:
        return _print_link(options)
    from ttmem.wire.tokens import Tokens, kept_key

    key = kept_key(options.key_file) if options.key_file else None
    if options.metrics_token:
        if key is None:
            raise BadInput("--metrics-token needs --key-file FILE, the same as that of the page")
        print(Tokens(key).for_metrics())
        return 0
    host, port = checked_address(options)
    try:
        import uvicorn

        from ttmem.web.http.app import Site
        from ttmem.web.http.connection import HttpConnection
    except ImportError as problem:
        needs = f"ttmem web needs starlette and uvicorn: {installing('web')}"
        raise TtmemError(f"{needs} ({problem})") from problem
    from ttmem.web.http.live import Live
    from ttmem.web.http.recordings import Recordings

    tokens = Tokens(key)
    feed = _feed(options)
    recordings = Recordings(options.file, feed, most_bytes=options.max_upload)
    live = Live(feed, options.interval)
    names = [*options.allow_host, *([] if _is_number(host) else [host])]
    listener = _listen(host, port)
    scheme = "https" if options.tls_cert else "http"
    address = f"{scheme}://{_shown(listener.getsockname())}"
    fleet = _fleet(options)
    site = Site(
        live,
        tokens,
        partial(_doctor, options),
        per_process=options.per_process,
        compat=options.compat == "tt-exporter",
        register=None
        if options.shm or options.file
        else partial(_register, options, address, tokens.key),
        recordings=recordings,
        fleet=fleet,
    )
    config = uvicorn.Config(
        site.app(names, public_metrics=options.public_metrics),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        http=HttpConnection,
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
    # Until uvicorn handles signals itself. It raises the one that ended it again, for this handler.
    signal.signal(signal.SIGTERM, lambda *_: setattr(server, "should_exit", True))
    if options.until_eof:  # `ttmem serve` started this process, and logs the address
        threading.Thread(target=_await_eof, args=(server,), daemon=True).start()
    else:
        page = "fleet" if fleet else ""
        print(f"{address}/{page}#token={tokens.issue(os.geteuid())}", flush=True)
        print("ttmem: open this link in a browser; Ctrl-C ends", file=sys.stderr)
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    except (OSError, ValueError) as problem:  # a certificate that cannot be read
        raise TtmemError(f"cannot serve: {problem}") from problem
    return 0


def _feed(options: argparse.Namespace) -> PastFeed:
    from ttmem.commands.top import keeping_past
    from ttmem.feeds import open_feed

    feed = source = open_feed(options.socket, options.shm)
    if options.telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        feed = telemetry_feed(feed)
    return keeping_past(feed, source)


def _fleet(options: argparse.Namespace) -> FleetPages | None:
    if options.prometheus is None:
        return None
    from ttmem.fleet.prometheus import Prometheus
    from ttmem.web.http.fleet import FleetPages

    return FleetPages(Prometheus(options.prometheus))


def _await_eof(server: Any) -> None:
    """The server that started this process holds the other end."""
    while os.read(0, 4096):
        pass
    server.should_exit = True


def _register(options: argparse.Namespace, address: str, key: bytes) -> None:
    """Tells `ttmem serve` the address of this page, so that it can give links to its users."""
    from ttmem.client.query import ServerConnection

    with suppress(TtmemError), ServerConnection(options.socket) as server:
        server.query("web_register", address=address, key=key.hex())


def _doctor(options: argparse.Namespace) -> dict[str, Any]:
    from ttmem.doctor.examination import examine_host
    from ttmem.doctor.finding import document
    from ttmem.sources.shm import counter_directory
    from ttmem.wire.socket_path import socket_path

    where = counter_directory(options.shm), socket_path(options.socket)
    return document(*examine_host(*where))


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
        raise BadInput(f"{text!r:.80} is not an address; write HOST:PORT, such as {ADDRESS}")
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
