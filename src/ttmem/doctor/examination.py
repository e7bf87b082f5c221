"""From facts to findings. Nothing is read here, so that tests can make up any host."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ttmem.clean import Plan
from ttmem.doctor.finding import CLEAN, Finding, Level, remark_finding
from ttmem.doctor.regions import cleanable, probe_findings, region_findings
from ttmem.events import Owner
from ttmem.sizes import human
from ttmem.sources.host import HostFacts
from ttmem.sources.shm import clean_command
from ttmem.sources.socket.knock import SocketFacts, SocketState

# A region takes three pages; a runtime that finds no space for them dies of SIGBUS at its first write.
# Other libraries put far larger things there, so it is worth a warning earlier than that.
LEAST_FREE = 1 << 20
LOW_SHARE = 0.05
_RUN = "docker run --ipc=host --pid=host --device /dev/tenstorrent ..."


def examine(facts: HostFacts, plan: Plan | None = None) -> tuple[Finding, ...]:
    """Worst first; within a level, in the order of the sections.

    `plan` is what `ttmem clean` would do. A finding does not recommend it if it would refuse.
    """
    folder = facts.folder.path
    findings = (_possible(_named(each, folder), plan, folder) for each in _all(facts, plan))
    return tuple(sorted(findings, key=lambda finding: -finding.level))


def _possible(finding: Finding, plan: Plan | None, folder: str) -> Finding:
    """Withdraws `ttmem clean` for a single file that it would not touch."""
    path = finding.path
    cleans = finding.command is not None and finding.command.startswith("ttmem clean ")
    if plan is None or not cleans or path is None or path == folder or plan.does(path):
        return finding
    left = plan.refuses(path)
    if left is None:
        return replace(finding, command=None)
    reason = left.reason.removeprefix(f"{os.path.basename(path)}: ")
    command = None if left.by_force else left.command
    return replace(finding, command=command, advice=f"`ttmem clean` leaves it alone: {reason}")


def _named(finding: Finding, folder: str) -> Finding:
    """Regions outside the default directory are cleaned only if it is named."""
    return replace(finding, command=clean_command(folder)) if finding.command == CLEAN else finding


def _all(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    yield from _cards(facts)
    yield from _folder(facts, plan)
    yield from _limits(facts)
    yield from region_findings(facts)
    for remark in facts.remarks:
        yield remark_finding(remark)
    yield from _sockets(facts.sockets)
    yield from probe_findings(facts, plan)


def _cards(facts: HostFacts) -> Iterator[Finding]:
    if not facts.cards:
        missing = "no card" if facts.driver else "no card, and the driver is not loaded"
        yield Finding(
            "no_card", Level.INFO, f"{missing}: only mock devices and simulations can run here"
        )
    for card in facts.cards:
        if card.node is None:
            yield Finding(
                "no_device_file",
                Level.WARNING,
                f"card {card.name} has no device file here, so nothing can open it",
                "docker run --device /dev/tenstorrent ...",
            )
        elif not card.usable:
            yield Finding(
                "closed_card",
                Level.WARNING,
                f"you cannot use card {card.name}: you may not read and write its device file",
                f"sudo chmod a+rw {card.node}",
                path=card.node,
            )


def _folder(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    folder = facts.folder
    if folder.size is None or folder.free is None:
        return  # a remark of the reader says why
    command = f"sudo mount -o remount,size={max(2 * folder.size >> 20, 64)}M {folder.path}"
    advice = "in a container: docker run --shm-size=SIZE ..."
    dead = sum(probe.size for probe in cleanable(facts, plan))
    if dead > LOW_SHARE * folder.size:  # they are what fills it
        command, advice = (
            CLEAN,
            f"frees {human(dead)} of dead probe regions; to enlarge it: {command}",
        )
    left = f"{human(folder.free)} of {human(folder.size)} are free in {folder.path}"
    if folder.free < LEAST_FREE:
        text = f"{left}: a runtime that starts now may be killed (SIGBUS) or publish nothing"
        yield Finding("shm_full", Level.ERROR, text, command, advice, path=folder.path)
    elif folder.free < LOW_SHARE * folder.size:
        yield Finding("shm_nearly_full", Level.WARNING, left, command, advice, path=folder.path)


def _limits(facts: HostFacts) -> Iterator[Finding]:
    """What cannot be seen from here: containers and hidden processes."""
    here = facts.surroundings
    if not here.host_pids:
        unseen = any(
            process.owner is Owner.DEAD
            for region in facts.regions
            for process in region.sample.processes
        )
        yield Finding(
            "own_pid_namespace",
            Level.WARNING if unseen else Level.INFO,
            "this container has its own pid namespace: processes outside it cannot be told from dead ones"
            + (", and a region names some" if unseen else ""),
            _RUN,
        )
    if not here.host_ipc:
        yield Finding(
            "private_shm",
            Level.INFO,
            "this container has its own ipc namespace: unless its /dev/shm is shared, it does not see the"
            " regions of processes outside it",
            _RUN,
        )
    if here.hidden_pids:
        yield Finding(
            "hidepid",
            Level.WARNING,
            "/proc hides the processes of other users (hidepid): which processes map a region or hold a card"
            " is known only for your own",
            "sudo mount -o remount,hidepid=0 /proc",
            "or run ttmem as root",
        )
    if here.tracking_disabled:
        yield Finding(
            "tracking_disabled_here",
            Level.WARNING,
            "TT_METAL_SHM_TRACKING_DISABLED=1 is set in your environment: programs started from here publish"
            " nothing",
            "unset TT_METAL_SHM_TRACKING_DISABLED",
        )
    for pid, folder in facts.other_folders:
        yield Finding(
            "region_elsewhere",
            Level.WARNING,
            f"process {pid} publishes in its own /dev/shm, as in a container: what it holds is not counted here",
            f"ttmem ps --shm {folder}",
            "permanently: docker run --ipc=host ...",
            pid=pid,
            path=folder,
        )


def _sockets(sockets: Iterable[SocketFacts]) -> Iterator[Finding]:
    for socket in sockets:
        path = shlex.quote(socket.path)
        if socket.state is SocketState.STALE:
            yield Finding(
                "stale_socket",
                Level.WARNING,
                f"{socket.path}: nobody listens on this socket; its server was killed",
                f"ttmem clean --socket {path} --yes",
                "`ttmem serve` removes it as well",
                path=socket.path,
            )
        elif socket.state is SocketState.NO_SOCKET:
            yield Finding(
                "not_a_socket",
                Level.WARNING,
                f"{socket.path} is not a socket, so no server can listen there",
                f"rm -i {path}",
                "if nobody needs it",
                path=socket.path,
            )
        elif socket.state is SocketState.CLOSED:
            yield Finding(
                "closed_socket",
                Level.WARNING,
                f"{socket.path}: you may not connect to the server of user {socket.user}",
                "ttmem serve --group NAME",
                f"to be run by {socket.user}",
                path=socket.path,
            )
        elif socket.state is SocketState.UNKNOWN:
            yield Finding(
                "unknown_socket",
                Level.WARNING,
                f"{socket.path}: cannot determine whether anybody listens there",
                f"ls -l {path}",
                path=socket.path,
            )
