"""Addresses of HTTP servers that users name: checked, and without the password that they may contain."""

from __future__ import annotations

import base64
import urllib.parse
import urllib.request
from typing import Any

from ttmem.errors import BadInput
from ttmem.text import printable


def split_password(url: str, wanted: str) -> tuple[str, dict[str, str]]:
    """The URL without user, password and trailing slash, and the headers that say who asks.

    `wanted` describes a good URL, for the error message.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        raise BadInput(f"{_shown(url)} is not a URL: {problem}") from problem
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise BadInput(f"{_shown(url)} is not {wanted}")
    if any(letter <= " " or letter == "\x7f" for letter in url):
        raise BadInput(f"{_shown(url)} is not a URL: it contains a space or a control character")
    headers = {}
    if parts.username is not None:
        words = (urllib.parse.unquote(word or "") for word in (parts.username, parts.password))
        headers["Authorization"] = f"Basic {base64.b64encode(':'.join(words).encode()).decode()}"
    where = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{where}{parts.path.rstrip('/')}", headers


def _shown(url: str) -> str:
    before, at, after = url.rpartition("@")
    hidden = f"{before.partition('//')[0]}//...@{after}" if at else url
    return f"{hidden!r:.200}"


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could send password and token to somebody else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def reason(problem: BaseException) -> str:
    """Why a server cannot be reached, without the number of the error."""
    told: object = getattr(problem, "reason", None) or problem
    if isinstance(told, OSError) and told.strerror:
        told = told.strerror
    return printable(str(told) or type(told).__name__)[:200]
