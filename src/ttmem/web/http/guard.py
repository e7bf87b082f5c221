"""Checks that every request must pass before it reaches a route.

In this order: an allowed Host (so that a foreign page cannot reach this one under a name that it has rebound to
127.0.0.1), a method and an origin that permit the action, and a user's token. Responses carry headers that keep
browsers from running, framing or sniffing anything.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from ttmem.wire.tokens import Tokens

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

METRICS = "/metrics"
SCRAPER = -1  # the uid of who has the token for /metrics: no user's
SAFE = ("GET", "HEAD")
# They contain no data.
OPEN = ("/", "/fleet", "/login", "/healthz", "/readyz", "/openapi.json", "/favicon.ico")
OPEN_BELOW = "/static/"
HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
     b" connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]  # fmt: skip


class Guard:
    """`public_metrics`: /metrics needs no token, and then has no series of processes.

    `is_full`: whether a user has left too many answers unread.
    """

    def __init__(
        self,
        app: App,
        tokens: Tokens,
        hosts: Iterable[str],
        *,
        public_metrics: bool,
        is_full: Callable[[int], bool],
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts)
        self._public_metrics = public_metrics
        self._is_full = is_full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets here

        async def send_safely(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        headers = _headers(scope)
        problem = self._problem(scope, headers)
        if problem is not None:
            await _refuse(send_safely, *problem)
            return
        uid = scope.setdefault("state", {})["uid"] = self._uid(scope["path"], headers)
        refused = False

        async def send_if_read(message: MutableMapping[str, Any]) -> None:
            """Checked just before sending: many requests may have waited for the same snapshot."""
            nonlocal refused
            starts = message["type"] == "http.response.start"
            if starts and uid is not None and self._is_full(uid):
                refused = True
                await _refuse(send_safely, 503, "your clients do not read their answers")
            elif not refused:
                await send_safely(message)

        await self._app(scope, receive, send_if_read)

    def _problem(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._allowed(hosts[0]):
            return 421, "this name is not allowed; start ttmem web with --allow-host NAME"
        path = scope["path"]
        if "\\" in path or "//" in path or any(part in (".", "..") for part in path.split("/")):
            return 400, "this path is not plain"
        if scope["method"] not in SAFE and not _same_origin(headers, hosts[0]):
            return 403, "this comes from another page"
        if self._is_open(path) or self._uid(path, headers) is not None:
            return None
        return (
            401,
            "a token is needed: open the link that ttmem web printed, or send it as a bearer token",
        )

    def _is_open(self, path: str) -> bool:
        free = path in OPEN or path.startswith(OPEN_BELOW)
        return free or (self._public_metrics and path == METRICS)

    def _allowed(self, host: str) -> bool:
        """An address, localhost, or a name that was given; with any port."""
        name = host.lower()
        if name.startswith("["):
            name, _, port = name[1:].partition("]")
            if port and not (port.startswith(":") and port[1:].isdigit()):
                return False
        elif name.count(":") == 1:
            name, _, port = name.partition(":")
            if not port.isdigit():
                return False
        if name in self._hosts:
            return True
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _uid(self, path: str, headers: dict[str, list[str]]) -> int | None:
        for text in headers.get("authorization", [])[:1]:
            scheme, _, token = text.partition(" ")
            if scheme.lower() != "bearer":
                return None
            if path == METRICS and self._tokens.is_for_metrics(token.strip()):
                return SCRAPER
            return self._tokens.uid(token.strip())
        cookie = cookie_name(headers["host"][0])
        for text in headers.get("cookie", []):
            # Not by http.cookies, which takes half a second for 14 KiB of backslashes in quotes.
            for part in text.split(";"):
                name, _, value = part.strip().partition("=")
                if name == cookie:
                    return self._tokens.uid(value)
        return None


def cookie_name(host: str) -> str:
    """With the port: browsers send the cookies of a host to all its ports, and there may be a page on each."""
    _, colon, port = host.rpartition("]")[2].rpartition(":")
    return f"ttmem-{port}" if colon else "ttmem"


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _same_origin(headers: dict[str, list[str]], host: str) -> bool:
    """Browsers name the origin of every request that changes something; other clients send none."""
    site = headers.get("sec-fetch-site", ["same-origin"])[0]
    origins = headers.get("origin", [])
    return site in ("same-origin", "none") and all(
        origin.partition("://")[2].lower() == host.lower() for origin in origins
    )


async def _refuse(send: Send, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    kind = (b"content-type", b"application/json")
    headers = [kind, (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
