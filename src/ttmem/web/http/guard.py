"""What every request has to pass before it reaches a route.

In this order: a Host that was allowed (so that a page of somebody else cannot reach this one under a name that it has
rebound to 127.0.0.1), a method and an origin that may do what is asked, and the token of a user. Answers carry headers
that keep browsers from running, framing or sniffing anything.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from ttmem.wire.tokens import Tokens

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "ttmem"
SAFE = ("GET", "HEAD")
OPEN = ("/", "/login", "/healthz", "/readyz", "/openapi.json", "/favicon.ico")  # no data in them
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
    """`public_metrics`: /metrics needs no token. It then has no series of processes."""

    def __init__(
        self, app: App, tokens: Tokens, hosts: Iterable[str], *, public_metrics: bool = False
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(host.lower() for host in hosts)
        self._public_metrics = public_metrics

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
        scope.setdefault("state", {})["uid"] = self._uid(headers)
        await self._app(scope, receive, send_safely)

    def _problem(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._allowed(hosts[0]):
            return 421, "this name is not allowed; start ttmem web with --allow-host NAME"
        path = scope["path"]
        if "\\" in path or "//" in path or any(part in (".", "..") for part in path.split("/")):
            return 400, "this path is not plain"
        if scope["method"] not in SAFE and not _same_origin(headers, hosts[0]):
            return 403, "this comes from another page"
        if self._is_open(path) or self._uid(headers) is not None:
            return None
        return (
            401,
            "a token is needed: open the link that ttmem web printed, or send it as a bearer token",
        )

    def _is_open(self, path: str) -> bool:
        free = path in OPEN or path.startswith(OPEN_BELOW)
        return free or (self._public_metrics and path == "/metrics")

    def _allowed(self, host: str) -> bool:
        """An address, localhost, or a name that was given; with any port."""
        name = host.lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
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

    def _uid(self, headers: dict[str, list[str]]) -> int | None:
        for text in headers.get("authorization", [])[:1]:
            scheme, _, token = text.partition(" ")
            return self._tokens.uid(token.strip()) if scheme.lower() == "bearer" else None
        for text in headers.get("cookie", []):
            try:
                morsel = SimpleCookie(text).get(COOKIE)
            except CookieError:
                continue
            if morsel is not None:
                return self._tokens.uid(morsel.value)
        return None


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
    body = f"{text}\n".encode()
    kind = (b"content-type", b"text/plain; charset=utf-8")
    headers = [kind, (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
