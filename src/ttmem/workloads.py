"""What a process belongs to: a container, a Kubernetes pod, a Slurm job.

From /proc/PID/cgroup and, for Slurm, from the environment; no orchestrator's API is used. Paths look like this,
whole or behind `/../..` if ttmem itself runs in a container that shares the host's pids:

    /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid, _ for ->.slice/cri-containerd-<id>.scope
    /kubepods/burstable/pod<uid>/<id>
    /system.slice/containerd.service/kubepods-burstable-pod<uid>.slice:cri-containerd:<id>
    /system.slice/docker-<id>.scope, /docker/<id>, .../libpod-<id>.scope, .../crio-<id>.scope
    /system.slice/slurmstepd.scope/job_<n>/step_<n, batch or extern>/..., /slurm/uid_<n>/job_<n>/step_<n>
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache

from ttmem.fast_dataclasses import NamedTuple
from ttmem.text import printable

_LARGEST_CGROUP = 64 << 10  # a line for each controller
_POD = r"(?:^|[-/])pod([0-9a-f]{8}[-_0-9a-f]{24,28})(?=[./]|$)"
_CONTAINER_ID = 64  # digits
_CONTAINER = r"(?:^|[-/:])([0-9a-f]{64})(?=\.scope|/|$)"
_MONITOR = r"(?:crio|libpod)-conmon-"  # the runtime's own process, outside the container
_JOB = r"/job_(\d{1,20})(?:/step_(\w{1,20}))?(?=/|$)"
_POD_LOGS = "/var/log/pods"  # <namespace>_<pod>_<uid>, a directory each


class Workload(NamedTuple):
    """Unknown parts are None."""

    container: str | None = None  # its id, 64 hexadecimal digits
    pod: str | None = None
    namespace: str | None = None
    pod_uid: str | None = None
    job: str | None = None  # of Slurm
    step: str | None = None


def workload(cgroup: bytes, environ: Callable[[], bytes]) -> Workload | None:
    """By the two files of /proc/PID; None if the process belongs to nothing of the kind."""
    found = from_cgroup(cgroup[:_LARGEST_CGROUP].decode("utf-8", "replace"))
    if found.job is None:
        job, step = _slurm_variables(environ())
        found = found._replace(job=job, step=step)
    if found.pod_uid is not None:
        namespace, pod = _pod_name(found.pod_uid)
        found = found._replace(namespace=namespace, pod=pod)
    return None if found == Workload() else found


@lru_cache(maxsize=64)
def from_cgroup(text: str) -> Workload:
    """What the lines of /proc/PID/cgroup tell; hybrid hosts have lines of both versions."""
    container = pod = job = step = None
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if len(path) <= _CONTAINER_ID and "pod" not in path and "/job_" not in path:
            continue  # as on most hosts, where no pattern has to be compiled
        if re.search(_MONITOR, path):
            continue
        if pod is None and (match := re.search(_POD, path)):
            pod = match[1].replace("_", "-")
        if container is None and (matches := re.findall(_CONTAINER, path)):
            container = matches[-1]  # the innermost
        if job is None and (match := re.search(_JOB, path)):
            job, step = match[1], match[2]
    return Workload(container=container, pod_uid=pod, job=job, step=step)


def _slurm_variables(environ: bytes) -> tuple[str | None, str | None]:
    """Job and step; the environment is the process's own, so anything but a number is ignored."""
    found: dict[bytes, str] = {}
    if b"SLURM_JOB_ID=" not in environ:
        return None, None
    for variable in environ.split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name in (b"SLURM_JOB_ID", b"SLURM_STEP_ID") and value.isdigit() and len(value) <= 20:
            found[name] = value.decode()
    job = found.get(b"SLURM_JOB_ID")
    return job, found.get(b"SLURM_STEP_ID") if job else None


@lru_cache(maxsize=1024)
def _pod_name(uid: str) -> tuple[str | None, str | None]:
    """(namespace, pod) by the directory of the pod's logs; unknown where that cannot be listed."""
    try:
        with os.scandir(_POD_LOGS) as entries:
            for entry in entries:
                namespace, _, rest = entry.name.partition("_")
                name, _, its_uid = rest.rpartition("_")
                if its_uid == uid and name:
                    return printable(namespace), printable(name)
    except OSError:
        pass
    return None, None
