"""A real `ttmem web` on a free port of loopback, and a small client."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class WebSite(NamedTuple):
    """Where it is, and a token of the user who runs it."""

    port: int
    token: str
    process: subprocess.Popen[str]

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = "",
    ) -> Answer:
        """With the user's token, another one, or none (None)."""
        given = dict(headers or {})
        if token is not None:
            given["Authorization"] = f"Bearer {token or self.token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@contextmanager
def website(*options: str) -> Iterator[WebSite]:
    command = [sys.executable, "-m", "ttmem", "web", "--http", "127.0.0.1:0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            link = process.stdout.readline().strip()
            assert link, process.stderr.read()
            where, _, token = link.partition("/#token=")
            yield WebSite(int(where.rpartition(":")[2]), token, process)
        finally:
            process.terminate()
            process.wait(30)
