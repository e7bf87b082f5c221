"""A command line of a user who may not read the files of another one."""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OTHER = "nobody"
_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def give_away(*paths: Path) -> None:
    """They belong to another user from now on, who alone may use them."""
    for path in paths:
        path.chmod(0o600)
        os.chown(path, pwd.getpwnam(OTHER).pw_uid, -1)


def as_plain_user(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`ttmem ARGUMENTS` without root's right to read everything."""
    return _run(["-m", "ttmem", *arguments], variables)


def plain_python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program without that right."""
    return _run(["-c", program], variables)


def _run(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=_become_plain,
    )


def _become_plain() -> None:
    for right in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        if _libc.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "this root may not give up rights")


# -- Processes that own slots, and die when they are told to


@contextmanager
def sleepers(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many live processes."""
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(count)]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()
