"""Parameters of requests, and answers."""

from __future__ import annotations

import os
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ttmem.snapshots import DETAILS, Question
from ttmem.views.selection import BY
from ttmem.web.http.documents import Asked, json_text

FASTEST_HZ = 10.0
MOST_ROWS, MOST_ROWS_OF_OTHERS = 100_000, 50_000  # as the server limits them


def known(request: Request, *names: str) -> None:
    """Raises HTTPException for other parameters than these."""
    unknown = sorted(set(request.query_params) - set(names))
    if unknown:
        raise HTTPException(
            400, f"there is no parameter {unknown[0]!r:.60}; there are {', '.join(names) or 'none'}"
        )


def question(request: Request, *more: str, detail: tuple[str, ...] | None = None) -> Asked:
    """`more`: names of parameters that belong to the route. `detail`: what the route lists, if it is not asked for."""
    known(request, *(["detail", "by"] if detail is None else []), "device", "pid", "limit", *more)
    given = request.query_params
    devices = tuple(device for device in given.get("device", "").split(",") if device)
    pids = tuple(pid for text in given.getlist("pid") if (pid := number(text, "pid", 1 << 31)))
    if "by" in given:
        grouped = _grouped(given["by"], alone=not {"detail", "limit"} & set(given))
        return Asked(grouped, devices, pids, given["by"])
    if detail is None:
        detail = tuple(sorted({name for name in given.get("detail", "").split(",") if name}))
    for name in detail:
        if name not in DETAILS:
            raise HTTPException(
                400, f"there is no detail {name!r:.60}; there are {', '.join(DETAILS)}"
            )
    limit = number(given.get("limit"), "limit", MOST_ROWS)
    most = MOST_ROWS if request.state.uid in (0, os.geteuid()) else MOST_ROWS_OF_OTHERS
    asked = Question(detail, None, min(limit or most, most) if detail else None)
    return Asked(asked, devices, pids)


def _grouped(by: str, *, alone: bool) -> Question:
    """Every buffer is needed, for sums that are exact."""
    if by not in BY:
        raise HTTPException(400, f"by is one of {', '.join(BY)}, not {by!r:.60}")
    if not alone:
        raise HTTPException(400, "by cannot be combined with detail or limit")
    return Question(("buffers",))


def number(text: str | None, name: str, most: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19 and 1 <= int(text) <= most):
        raise HTTPException(400, f"{name} is a whole number from 1 to {most:,}, not {text!r:.60}")
    return int(text)


def period(request: Request, interval: float) -> float:
    """Seconds between two events: as often as there are new snapshots, unless less is asked for."""
    text = request.query_params.get("hz")
    if text is None:
        return interval
    try:
        hz = float(text)
    except ValueError:
        hz = 0.0
    if not 0.1 <= hz <= FASTEST_HZ:
        raise HTTPException(400, f"hz is a number from 0.1 to {FASTEST_HZ:g}, not {text!r:.60}")
    return max(interval, 1 / hz)


def json_answer(document: Any, status: int = 200) -> Response:
    """Lone surrogates, which JSON in Python allows, are escaped, because they are not valid UTF-8."""
    return json_response(json_text(document), status)


def json_response(text: str, status: int = 200) -> Response:
    return Response(text, status, media_type="application/json")
