"""What is left when it should not be: the strict rule, and the comparison with an earlier dump."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ttmem.errors import BadInput
from ttmem.events import LABELS, Amounts
from ttmem.sizes import human, several
from ttmem.snapshots import Snapshot
from ttmem.text import clean

SCHEMA = "ttmem.dump/1"
WRITE = "`ttmem dump --json --top 0 > FILE` writes one"


class Limits(NamedTuple):
    """What a check does not mind."""

    min_bytes: int = 0  # of one line
    phases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of a leak check; it fails if there are reasons."""

    rule: str  # growth, baseline or strict
    reasons: tuple[str, ...]  # a clause each
    not_judged: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return bool(self.reasons)


class Place(NamedTuple):
    """Where memory is held; the same in another run."""

    kind: str
    site: str | None
    op: str | None

    def __str__(self) -> str:
        where = clean((self.site or "").split("\n", 1)[0]) or "no call site"
        return f"{self.kind} at {where}{f' ({clean(self.op)})' if self.op else ''}"


def held_at(snapshots: Iterable[Snapshot], limits: Limits) -> dict[Place, int]:
    """Bytes by line of code; what only sums tell has no line."""
    held: dict[Place, int] = defaultdict(int)
    for snapshot in snapshots:
        ids = {device.unique_id for device in snapshot.devices}
        rest = {
            (process.pid, device): amounts
            for process in snapshot.processes
            for device, amounts in process.devices.items()
            if device in ids
        }
        for buffer in snapshot.buffers or ():
            if buffer.kind in LABELS:
                owner = (buffer.pid or 0, buffer.device or "")
                if owner in rest:
                    rest[owner] = _without(rest[owner], buffer.kind, buffer.held)
                if buffer.phase not in limits.phases:
                    held[Place(buffer.kind, buffer.site, buffer.name)] += buffer.held
        for amounts in rest.values():
            for label, bytes_ in amounts.by_label().items():
                held[Place(label, None, None)] += max(0, bytes_)
    return {place: bytes_ for place, bytes_ in held.items() if bytes_ > 0}


def _without(amounts: Amounts, label: str, bytes_: int) -> Amounts:
    key = label.lower()
    return amounts._replace(**{key: getattr(amounts, key) - bytes_})


def strict_check(snapshots: Iterable[Snapshot], limits: Limits) -> Check:
    """Anything that is held, or was never freed."""
    states = list(snapshots)
    found = held_at(states, limits)
    reasons = [
        f"{human(bytes_)} of {place} is held, or was never freed"
        for place, bytes_ in sorted(found.items(), key=lambda item: -item[1])
        if bytes_ >= max(1, limits.min_bytes)
    ]
    unlisted = sum(process.overflow for one in states for process in one.processes)
    if unlisted:
        reasons.append(f"{several(unlisted, 'more buffer')} of which nothing else is known")
    return Check("strict", tuple(reasons))


@dataclass(frozen=True, slots=True)
class Baseline:
    """What an earlier dump held."""

    name: str
    boards: frozenset[str]
    held: Mapping[Place, int]


def baseline_check(snapshots: Iterable[Snapshot], limits: Limits, baseline: Baseline) -> Check:
    """Whatever is more than in the baseline, by line of code."""
    states = list(snapshots)
    boards = {device.board for one in states for device in one.devices if device.board}
    if boards and baseline.boards and not boards <= baseline.boards:
        raise BadInput(
            f"{baseline.name} is of {', '.join(sorted(baseline.boards))}, and this is {', '.join(sorted(boards))}:"
            f" sizes differ between boards; {WRITE} here"
        )
    reasons = []
    for place, bytes_ in sorted(held_at(states, limits).items(), key=lambda item: -item[1]):
        more = bytes_ - baseline.held.get(place, 0)
        if more >= max(1, limits.min_bytes):
            reasons.append(
                f"{human(more)} more of {place} than in {baseline.name}: {human(bytes_)}"
            )
    return Check("baseline", tuple(reasons))


def read_baseline(name: str) -> Baseline:
    """BadInput says what is wrong with the file."""
    try:
        with open(name, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as problem:
        raise BadInput(f"{name} cannot be read ({problem.strerror}); {WRITE}") from None
    except ValueError:
        raise BadInput(f"{name} is not JSON; {WRITE}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BadInput(f"{name} is no dump of this version of ttmem; {WRITE}")
    try:
        return _baseline(name, document)
    except (KeyError, TypeError, AttributeError):
        raise BadInput(f"{name} is no dump of this version of ttmem; {WRITE}") from None


def _baseline(name: str, document: Mapping[str, Any]) -> Baseline:
    held: dict[Place, int] = defaultdict(int)
    boards = set()
    for device in (*document["devices"], *document["never_freed"]):
        boards.add(device.get("board"))
        for group in device["memory"]:
            if group["rest"]:
                raise BadInput(
                    f"{name} does not list every buffer: it was written without --top 0; {WRITE}"
                )
            listed = 0
            for one in group["largest"] if group["kind"] != "CB" else ():
                bytes_ = one["reserved"] or one["requested"]
                held[Place(group["kind"], one["site"], one["name"])] += bytes_
                listed += bytes_
            held[Place(group["kind"], None, None)] += max(0, group["held"] - listed)
    return Baseline(name, frozenset(one for one in boards if one), dict(held))
