"""Which processes and files can be seen from here at all."""

from __future__ import annotations

import os

from ttmem.sources.host.facts import Surroundings

# The kernel gives its first namespaces these inode numbers, on every machine.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
_FIRST_IPC_NAMESPACE = 0xEFFFFFFF


def surroundings() -> Surroundings:
    """Of this process."""
    root = os.geteuid() == 0
    return Surroundings(
        host_pids=_namespace("pid") == _FIRST_PID_NAMESPACE,
        host_ipc=_namespace("ipc") == _FIRST_IPC_NAMESPACE,
        hidden_pids=not root and proc_hides(_mounts()),
        root=root,
        tracking_disabled=os.environ.get("TT_METAL_SHM_TRACKING_DISABLED", "").startswith("1"),
    )


def _namespace(kind: str) -> int | None:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return None


def _mounts() -> str:
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def proc_hides(mounts: str) -> bool:
    """Whether hidepid is on, by /proc/self/mounts: device, folder, type, options, ..."""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[1] == "/proc" and fields[2] == "proc":
            options = dict(option.partition("=")[::2] for option in fields[3].split(","))
            return options.get("hidepid", "0") not in ("0", "off")
    return False
