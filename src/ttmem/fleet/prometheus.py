"""Queries a Prometheus, or anything else with its query API. Answers are checked, and limited in size and time."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, NamedTuple

from ttmem.addresses import NoRedirects, reason, split_password
from ttmem.errors import BadInput, NoServer, Refused, TtmemError
from ttmem.text import printable

TOKEN_VARIABLE = "TTMEM_PROMETHEUS_TOKEN"
TIMEOUT_S = 10.0  # for a whole answer
MOST_BYTES = 64 << 20  # per answer; all series of a Galaxy host are 0.5 MB
MOST_LETTERS = 256  # per label
LARGEST = 1e18  # more than any amount in bytes or time in seconds
UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)
_PIECE = 1 << 18


class Sample(NamedTuple):
    """One series at one instant; `labels` has its name as `__name__`."""

    labels: Mapping[str, str]
    value: float

    @property
    def name(self) -> str:
        return self.labels.get("__name__", "")

    @property
    def instance(self) -> str:
        return self.labels.get("instance", "")


class Prometheus:
    """`url` may contain a path, and a user and password; a bearer token is read from TTMEM_PROMETHEUS_TOKEN."""

    def __init__(self, url: str, timeout: float = TIMEOUT_S) -> None:
        self._base, self._headers = _checked(url)
        self._timeout = timeout
        self._opener = urllib.request.build_opener(NoRedirects)

    @property
    def url(self) -> str:
        """The URL without the password."""
        return self._base

    def query(self, expression: str, at: float | None = None) -> list[Sample]:
        """The series of an instant vector, now or at a time in seconds. Values that are not numbers are left out."""
        given = {"query": expression, "timeout": f"{self._timeout:g}s"}
        if at is not None:
            given["time"] = f"{at:.3f}"
        body = self._ask(f"{self._base}/api/v1/query?{urllib.parse.urlencode(given)}")
        try:
            document = json.loads(body)
            if document["status"] != "success":
                raise Refused(f"{self._base} says: {_said(document)}")
            data = document["data"]
            if data["resultType"] != "vector":
                raise ValueError(f"a {data['resultType']!r:.40} instead of a vector")
            found = [_sample(row) for row in data["result"]]
        except UNREADABLE as problem:
            raise TtmemError(
                f"{self._base} does not answer like a Prometheus"
                f" ({type(problem).__name__}: {printable(str(problem))[:80]}); is this its URL?"
            ) from problem
        return [sample for sample in found if abs(sample.value) < LARGEST]  # nor is NaN

    def _ask(self, address: str) -> bytes:
        end = time.monotonic() + self._timeout
        request = urllib.request.Request(address, headers=self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return self._read(answer, end)
        except urllib.error.HTTPError as problem:
            with problem:
                raise self._refusal(problem) from problem
        except (OSError, HTTPException) as problem:
            raise self._absence(problem) from problem

    def _read(self, answer: Any, end: float) -> bytes:
        body = bytearray()
        while piece := answer.read1(_PIECE):
            body += piece
            if len(body) > MOST_BYTES:
                raise TtmemError(
                    f"an answer of {self._base} is larger than {MOST_BYTES >> 20} MiB and was not read"
                )
            if time.monotonic() > end:
                raise TimeoutError
        return bytes(body)

    def _refusal(self, problem: urllib.error.HTTPError) -> TtmemError:
        code = problem.code
        if code in (401, 403):
            return Refused(
                f"{self._base} refuses ({code}): it wants a password in the URL, or a token in {TOKEN_VARIABLE}"
            )
        if 300 <= code < 400:
            where = printable(str(problem.headers.get("Location", "elsewhere")))[:200]
            return Refused(f"{self._base} redirects to {where}; give that URL")
        if code == 404:
            return Refused(f"{self._base} has no /api/v1/query; is this the URL of a Prometheus?")
        said = ""
        try:
            said = _said(json.loads(problem.read(1 << 16)))
        except (OSError, ValueError, HTTPException):
            pass
        return Refused(f"{self._base} says: {said or f'HTTP {code}'}")

    def _absence(self, problem: BaseException) -> TtmemError:
        if isinstance(getattr(problem, "reason", problem), TimeoutError):
            return NoServer(f"{self._base} does not answer within {self._timeout:g} s")
        return NoServer(f"{self._base} cannot be reached: {reason(problem)}")


def _checked(url: str) -> tuple[str, dict[str, str]]:
    """The URL without a trailing slash, and the headers to send."""
    base, headers = split_password(url, "the URL of a Prometheus; write http://HOST:9090")
    headers |= {"Accept": "application/json", "User-Agent": "ttmem"}
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and "Authorization" not in headers:
        if not (token.isascii() and token.isprintable()):
            raise BadInput(f"{TOKEN_VARIABLE} contains characters that a token cannot have")
        headers["Authorization"] = f"Bearer {token}"
    return base, headers


def _sample(row: Any) -> Sample:
    labels = {
        str(name): printable(str(value)[:MOST_LETTERS]) for name, value in row["metric"].items()
    }
    return Sample(labels, float(row["value"][1]))


def _said(document: Any) -> str:
    told = document.get("error") if isinstance(document, dict) else None
    return printable(str(told or "nothing more"))[:300]


def quoted(text: str) -> str:
    """A PromQL string literal."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'
