"""What a process belongs to, from real paths of cgroups."""

from __future__ import annotations

import pytest

from ttmem import workloads
from ttmem.workloads import Workload, from_cgroup, workload

ID = "4b1d" * 16
UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
UNDER = UID.replace("-", "_")
STATIC = "c3a1b5d7e9f00112233445566778899a"  # of a static pod: no dashes


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
            Workload(container=ID, pod_uid=UID),
        ),
        (
            f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{ID}.scope",
            Workload(container=ID, pod_uid=UID),
        ),
        (f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/crio-conmon-{ID}.scope", Workload()),
        (
            f"0::/system.slice/containerd.service/kubepods-besteffort-pod{UNDER}.slice:cri-containerd:{ID}",
            Workload(container=ID, pod_uid=UID),
        ),
        (
            f"4:memory:/kubepods-besteffort-pod{UNDER}.slice:cri-containerd:{ID}",
            Workload(container=ID, pod_uid=UID),
        ),
        (f"0::/kubepods/burstable/pod{UID}/{ID}", Workload(container=ID, pod_uid=UID)),
        (f"0::/kubepods/pod{STATIC}/{ID}", Workload(container=ID, pod_uid=STATIC)),
        (f"12:memory:/kubepods/besteffort/pod{UID}/{ID}", Workload(container=ID, pod_uid=UID)),
        (f"0::/system.slice/docker-{ID}.scope", Workload(container=ID)),
        (f"11:cpuset:/docker/{ID}\n1:name=systemd:/docker/{ID}", Workload(container=ID)),
        (f"0::/machine.slice/libpod-{ID}.scope", Workload(container=ID)),
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
            Workload(container=ID),
        ),
        (
            "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_3",
            Workload(job="4711", step="0"),
        ),
        (
            "0::/system.slice/node7_slurmstepd.scope/job_4711/step_batch/user/task_0",
            Workload(job="4711", step="batch"),
        ),
        ("9:memory:/slurm/uid_1000/job_12/step_extern", Workload(job="12", step="extern")),
        (
            f"0::/../../kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
            Workload(container=ID, pod_uid=UID),
        ),
        ("0::/", Workload()),
        ("0::/user.slice/user-0.slice/session-1.scope", Workload()),
        (f"0::/podcast-{ID[:40]}/job_x", Workload()),
        ("\x1b[2J:::::", Workload()),
    ],
)
def test_a_path_tells_container_pod_and_job(path: str, expected: Workload) -> None:
    assert from_cgroup(path) == expected


def test_the_environment_tells_the_job_where_cgroups_do_not() -> None:
    environ = b"HOME=/root\0SLURM_JOB_ID=99\0SLURM_STEP_ID=4\0"

    assert workload(b"0::/", lambda: environ) == Workload(job="99", step="4")
    assert workload(b"0::/", lambda: b"SLURM_JOB_ID=../../etc\0SLURM_STEP_ID=1\0") is None


def test_a_pod_is_named_by_the_directory_of_its_logs(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    os.mkdir(f"{tmp_path}/serving_llama-70b-0_{UID}")
    os.mkdir(f"{tmp_path}/kube-system_proxy_{STATIC}")
    monkeypatch.setattr(workloads, "_POD_LOGS", str(tmp_path))
    workloads._pod_name.cache_clear()

    found = workload(f"0::/kubepods/pod{UID}/{ID}".encode(), lambda: b"")

    assert found == Workload(ID, "llama-70b-0", "serving", UID)
    workloads._pod_name.cache_clear()
