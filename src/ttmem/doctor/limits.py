"""What cannot be seen from here: containers and hidden processes."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.doctor.finding import Finding, Level
from ttmem.events import Owner
from ttmem.sources.host import HostFacts

_RUN = "docker run --ipc=host --pid=host --device /dev/tenstorrent ..."


def limit_findings(facts: HostFacts) -> Iterator[Finding]:
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
            "this is a container with pids of its own: processes outside it cannot be told from "
            "dead ones" + (", and a region names some" if unseen else ""),
            _RUN,
        )
    if not here.host_ipc:
        yield Finding(
            "private_shm",
            Level.INFO,
            "this is a container with an ipc namespace of its own: unless its /dev/shm is shared, "
            "regions of processes outside it are not there",
            _RUN,
        )
    if here.hidden_pids:
        yield Finding(
            "hidepid",
            Level.WARNING,
            "/proc hides the processes of other users (hidepid): who maps a region and who holds "
            "a card is known of your own processes only",
            "sudo mount -o remount,hidepid=0 /proc",
            "or run ttmem as root",
        )
    if here.tracking_disabled:
        yield Finding(
            "tracking_disabled_here",
            Level.WARNING,
            "TT_METAL_SHM_TRACKING_DISABLED=1 is in your environment: what you start from here "
            "publishes nothing",
            "unset TT_METAL_SHM_TRACKING_DISABLED",
        )
    for pid, folder in facts.other_folders:
        yield Finding(
            "region_elsewhere",
            Level.WARNING,
            f"process {pid} publishes in a /dev/shm of its own, as containers have it: what it "
            "holds is in no figure here",
            f"ttmem ps --shm {folder}",
            "for good: docker run --ipc=host ...",
            pid=pid,
            path=folder,
        )
