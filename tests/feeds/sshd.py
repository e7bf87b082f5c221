"""Debian's sshd on a port of loopback, with keys, configuration and users of its own; nothing of the system is touched.

It runs in a user namespace, where whoever runs the tests is a plain user, and lets in only that user, whom a library
(nss_wrapper) makes it know. So it needs neither root nor a folder or user of the system.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import TOOLS
from tests.patience import wait_until

NAME = "tester"
UID = "1000"
PLAIN_USER = ("unshare", "--user", f"--map-user={UID}", f"--map-group={UID}", "--")
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", str(TOOLS.parent / "deb/usr/lib/x86_64-linux-gnu"))


class Ssh(NamedTuple):
    """`host` is known to the `ssh` in `programs`, which has a configuration of its own."""

    host: str
    programs: Path
    home: Path  # of the user there
    port: int
    sshd: subprocess.Popen[bytes]


@contextmanager
def ssh_server(folder: Path) -> Iterator[Ssh]:
    sshd, keygen, ssh = (shutil.which(name) for name in ("sshd", "ssh-keygen", "ssh"))
    wrapper = next(
        (path for at in LIBRARIES if (path := Path(at, "libnss_wrapper.so")).exists()), None
    )
    if sshd is None or keygen is None or ssh is None or wrapper is None:
        pytest.skip("sshd is not installed")
    home = folder / "home"
    home.mkdir()
    for name in ("host_key", "my_key"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized_keys").write_text((folder / "my_key.pub").read_text())
    (folder / "passwd").write_text(f"{NAME}:x:{UID}:{UID}::{home}:/bin/sh\n")
    (folder / "group").write_text(f"{NAME}:x:{UID}:\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host_key",
        "AuthorizedKeysFile": folder / "authorized_keys",
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "SetEnv": f"PATH={folder / 'there'}:/usr/bin:/bin",
    }
    _write(folder / "sshd_config", config)
    known = f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}"
    (folder / "known_hosts").write_text(known)
    mine = {
        "HostName": "127.0.0.1",
        "Port": port,
        "User": NAME,
        "IdentityFile": folder / "my_key",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": folder / "known_hosts",
        "GlobalKnownHostsFile": "/dev/null",
    }
    _write(folder / "ssh_config", mine)
    programs = folder / "bin"
    programs.mkdir()
    _script(programs / "ssh", f'exec {ssh} -F {folder / "ssh_config"} "$@"')
    (folder / "there").mkdir()
    _script(folder / "there" / "ttmem", f'exec {sys.executable} -m ttmem "$@"')
    environment = {
        **os.environ,
        "LD_PRELOAD": str(wrapper),
        "NSS_WRAPPER_PASSWD": str(folder / "passwd"),
        "NSS_WRAPPER_GROUP": str(folder / "group"),
    }
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen(
            [*PLAIN_USER, sshd, "-D", "-e", "-f", folder / "sshd_config"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        wait_until(lambda: _listens(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "sshd.log").read_text()
        yield Ssh("box", programs, home, port, process)
    finally:
        process.kill()
        process.wait()


def _write(file: Path, settings: dict[str, object]) -> None:
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


def _script(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
