"""A real `ttmem web` on a free port of loopback, and a small client."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit


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
    errors: IO[str] | None = None  # its standard error

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
def website(*options: str, program: tuple[str, ...] = ("-m", "ttmem")) -> Iterator[WebSite]:
    command = [sys.executable, *program, "web", "--http", "127.0.0.1:0", *options]
    # A pipe that nobody reads would stop a page with much to complain about.
    with (
        tempfile.NamedTemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            errors.seek(0)
            assert link, errors.read()
            where = urlsplit(link)
            assert where.port is not None
            token = where.fragment.removeprefix("token=")
            yield WebSite(where.port, token, process, errors)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()  # else the end of `with` waits for ever
                raise
