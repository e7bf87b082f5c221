"""What can be cleaned, without changing anything."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ttmem.clean.ownership import foreign
from ttmem.clean.region_plan import Judge
from ttmem.clean.steps import LeftAlone, Plan, RemoveSocket, Step
from ttmem.events import Remark
from ttmem.sources.host import SocketState
from ttmem.sources.host.server_sockets import knock
from ttmem.sources.shared_memory.files import region_files


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to clean: None is nowhere. `force`: believe that a pid that is not here is dead."""

    folder: str | None
    socket: str | None
    force: bool = False


def make_plan(scope: Scope) -> Plan:
    """Steps in the order in which they will be done."""
    found = [*_regions(scope), *_socket(scope)]
    return Plan(
        tuple(each for each in found if not isinstance(each, LeftAlone)),
        tuple(each for each in found if isinstance(each, LeftAlone)),
    )


def _regions(scope: Scope) -> Iterator[Step | LeftAlone]:
    if scope.folder is None:
        return
    judge = Judge(scope.force)
    for entry in region_files(scope.folder):
        if isinstance(entry, Remark):
            yield LeftAlone(entry.path or scope.folder, entry.text)
        else:
            found = judge.region(entry)
            if found is not None:
                yield found
    yield from judge.probes(scope.folder)


def _socket(scope: Scope) -> Iterator[Step | LeftAlone]:
    if scope.socket is None:
        return
    facts = knock(scope.socket)
    if facts.state is SocketState.STALE:
        command = f"ttmem clean --socket {shlex.quote(scope.socket)}"
        yield foreign(scope.socket, command) or RemoveSocket(scope.socket)
    elif facts.state is SocketState.NO_SOCKET:
        yield LeftAlone(scope.socket, f"{scope.socket}: no socket, and so not ttmem's")
