"""From facts to findings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ttmem.clean.planning import Plan, make_plan
from ttmem.doctor.finding import CLEAN, Finding, Level, found, remark_finding
from ttmem.events import GHOSTS, PROBE_CLOSED, Owner
from ttmem.sizes import human
from ttmem.sources.host import (
    HiddenFacts,
    HostFacts,
    ProbeFacts,
    RegionFacts,
    Surroundings,
    gather,
)
from ttmem.sources.shm import clean_command, sentence
from ttmem.sources.socket.listener import SocketFacts, SocketState
from ttmem.text import clip, short_command

# A region takes three pages; a runtime that finds no space for them dies of SIGBUS at its first write.
# Other libraries put far larger things there, so it is worth a warning earlier than that.
LEAST_FREE = 1 << 20
LOW_SHARE = 0.05


def examine_host(folder: str, socket: str) -> tuple[HostFacts, tuple[Finding, ...]]:
    """This host: regions in that directory, and the server at that socket."""
    facts = gather(folder, socket)
    return facts, examine(facts, make_plan(folder, socket))


def examine(facts: HostFacts, plan: Plan | None = None) -> tuple[Finding, ...]:
    """Worst first; within a level, in the order of the sections. Nothing is read, so that tests can make up any host.

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
        yield found("no_card", f"{missing}: only mock devices and simulations can run here")
    for card in facts.cards:
        if card.node is None:
            text = f"card {card.name} has no device file here, so nothing can open it"
            yield found("no_device_file", text)
        elif not card.usable:
            text = f"you cannot use card {card.name}: you may not read and write its device file"
            yield found("closed_card", text, path=card.node)


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
        yield found(
            "own_pid_namespace",
            "this container has its own pid namespace: processes outside it look like dead ones"
            + (", and a region names some" if unseen else ""),
            Level.WARNING if unseen else None,
        )
    if not here.host_ipc:
        yield found(
            "private_shm",
            "this container has its own ipc namespace: unless its /dev/shm is shared, it does not see the"
            " regions of processes outside it",
        )
    if here.hidden_pids:
        yield found(
            "hidepid",
            "/proc hides the processes of other users (hidepid): which processes map a region or hold a card"
            " is known only for your own",
        )
    if here.tracking_disabled:
        yield found(
            "tracking_disabled_here",
            "TT_METAL_SHM_TRACKING_DISABLED=1 is set in your environment: programs started from here publish"
            " nothing",
        )
    for container in facts.containers:
        if container.problem is not None:
            more = f" and {len(container.pids) - 1:,} more" if len(container.pids) > 1 else ""
            yield found(
                "region_elsewhere",
                f"the /dev/shm of process {container.pids[0]}{more}, as in a container, is not read:"
                f" {container.problem}",
                None if container.in_use else Level.INFO,
                pid=container.pids[0],
                path=container.path,
            )
    if facts.hidden:
        yield _hidden(facts.hidden, facts.surroundings)


MOST_HIDDEN, LONGEST_COMMAND = 3, 40


def _hidden(hidden: Sequence[HiddenFacts], here: Surroundings) -> Finding:
    """A warning only where memory of a card may be missing: those without one come last."""
    ordered = sorted(hidden, key=lambda each: each.has_card is False)
    names = [
        f"{each.pid} ({clip(short_command(each.command), LONGEST_COMMAND)})"
        for each in ordered[:MOST_HIDDEN]
    ]
    names += [f"{len(hidden) - MOST_HIDDEN:,} more"] * (len(hidden) > MOST_HIDDEN)
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    which = f"process {listed}" if len(hidden) == 1 else f"processes {listed}"
    no_card = all(each.has_card is False for each in hidden)
    if not here.root:
        advice = "run ttmem as root"
    elif not here.may_trace:
        advice = "ttmem needs CAP_SYS_PTRACE for that; deploy/kubernetes grants it"
    else:
        advice = "ttmem has CAP_SYS_PTRACE; the security settings of this machine forbid it even so"
    return Finding(
        "hidden_containers",
        Level.WARNING if here.root and not no_card else Level.INFO,
        f"you may not inspect {which}: regions inside {'its' if len(hidden) == 1 else 'their'}"
        f" container are not read{'; no card is open there' if no_card else ''}",
        advice=advice,
        pid=hidden[0].pid if len(hidden) == 1 else None,
    )


_SOCKETS = {
    SocketState.STALE: (
        "stale_socket",
        "{path}: no process listens on this socket; its server was killed",
    ),
    SocketState.NO_SOCKET: (
        "not_a_socket",
        "{path} is not a socket, so no server can listen there",
    ),
    SocketState.CLOSED: (
        "closed_socket",
        "{path}: you may not connect to the server of user {user}",
    ),
    SocketState.UNKNOWN: (
        "unknown_socket",
        "{path}: cannot determine whether anybody listens there",
    ),
}


def _sockets(sockets: Iterable[SocketFacts]) -> Iterator[Finding]:
    for socket in sockets:
        if socket.state in _SOCKETS:
            kind, text = _SOCKETS[socket.state]
            text = text.format(path=socket.path, user=socket.user)
            yield found(kind, text, path=socket.path, user=socket.user)


_REAPED = "none needed: this runtime (layout 4) clears it when the next process opens the device"
_THERE = "`ttmem clean` does not reach into containers: run it in that container, or restart the container"


def region_findings(facts: HostFacts) -> Iterator[Finding]:
    for region in facts.regions:
        for finding in _remarks(region):
            yield replace(finding, path=region.sample.path)
        if region.mode & 0o022:
            yield _open_to_all(region)


def _remarks(region: RegionFacts) -> Iterator[Finding]:
    sample = region.sample
    owners = {process.owner for process in sample.processes}
    live = bool(region.mapped_by) or any(owner.counts for owner in owners)
    dead = any(owner.left for owner in owners)
    for remark in sample.remarks:
        finding = remark_finding(remark, f"device {sample.unique_id}: ")
        if finding.kind in GHOSTS and sample.version == 4 and live:
            yield replace(finding, level=Level.INFO, command=None, advice=_REAPED)
        elif finding.kind in GHOSTS and _in_container(sample.path):
            level = finding.level if finding.bytes else Level.INFO
            yield replace(finding, level=level, command=None, advice=_THERE)
        elif finding.kind in GHOSTS and not finding.bytes:
            yield replace(finding, level=Level.INFO)
        elif finding.kind == "table_full" and dead and _in_container(sample.path):
            yield replace(finding, advice=_THERE)
        elif finding.kind == "table_full" and dead:
            yield replace(finding, command=CLEAN)
        else:
            yield finding


def _open_to_all(region: RegionFacts) -> Finding:
    path = region.sample.path
    finding = found(
        "open_to_all",
        f"device {region.sample.unique_id}: other users can write to its region (mode {region.mode:04o}, "
        f"owner {region.user}), so its figures may be forged",
        path=path,
    )
    return replace(finding, command=None) if _in_container(path) else finding


def _in_container(path: str) -> bool:
    """In a container, the path may lead elsewhere by the time a command uses it."""
    return path.startswith("/proc/")


def cleanable(facts: HostFacts, plan: Plan | None) -> list[ProbeFacts]:
    """Probe regions of dead processes that `ttmem clean` would remove."""
    left = [probe for probe in facts.probes if probe.left_over and not _in_container(probe.path)]
    return left if plan is None else [probe for probe in left if plan.does(probe.path)]


def closed_by_user(facts: HostFacts) -> dict[str, list[ProbeFacts]]:
    """Probe regions that only their owner may read, by owner."""
    by_owner: dict[str, list[ProbeFacts]] = {}
    for probe in facts.probes:
        if probe.closed:
            by_owner.setdefault(probe.user or "unknown", []).append(probe)
    return by_owner


def closed_text(user: str, closed: Sequence[ProbeFacts]) -> str:
    return sentence(len(closed), PROBE_CLOSED, user)


def probe_findings(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    left = cleanable(facts, plan)
    if left:
        yield _left_over(left)
    for probe in facts.probes:
        if probe.left_over and probe not in left and not _in_container(probe.path):
            yield _left_over([probe])
    for user, closed in closed_by_user(facts).items():
        yield found(PROBE_CLOSED, closed_text(user, closed), **_only(closed))
    for probe in facts.probes:
        about: dict[str, Any] = {"pid": probe.pid, "path": probe.path}
        missing = [name for name, there in probe.features if not there]
        if probe.foreign:
            finding = found("foreign_probe_region", f"{probe.problem}", user=probe.user, **about)
            yield replace(finding, command=None) if _in_container(probe.path) else finding
        elif probe.problem is not None and not probe.closed:
            yield found("bad_probe_region", f"{probe.problem}; skipped", **about)
        elif missing:
            yield found(
                "missing_features",
                f"the probe in process {probe.pid} cannot observe {', '.join(missing)}: this runtime lacks the"
                " functions it hooks",
                None if probe.alive else Level.INFO,
                **about,
            )


def _left_over(probes: list[ProbeFacts]) -> Finding:
    size = sum(probe.size for probe in probes)
    text = (
        f"process {probes[0].pid} has died; its probe region takes {human(size)} and is kept for `ttmem dump`"
        if len(probes) == 1
        else f"{len(probes):,} processes under the probe have died; their regions take {human(size)} "
        "and are kept for `ttmem dump`"
    )
    return found("dead_probe_region", text, bytes=size, **_only(probes))


def _only(probes: list[ProbeFacts]) -> dict[str, Any]:
    """Pid and path, if the finding is about one region."""
    return {"pid": probes[0].pid, "path": probes[0].path} if len(probes) == 1 else {}
