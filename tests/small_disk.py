"""A file system of a few pages that is really full when it is full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs in a mount namespace of its own, reached through a process that stays there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Nothing more can be written to it."""
        with open(self.path / "ballast", "ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(65536))
            except OSError:
                pass

    def empty(self) -> None:
        """Gives back what `fill` took."""
        (self.path / "ballast").unlink()


@contextmanager
def small_disk(mount_point: Path, size: int) -> Iterator[SmallDisk]:
    """`size` is in bytes. Needs no privileges where the kernel gives user namespaces to everybody."""
    mount = f"mount -t tmpfs -o size={size},mode=0700 tmpfs {mount_point} && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        if keeper.stdout.readline() != b"ready\n":
            pytest.skip("this machine lets nobody mount a file system of his own")
        try:
            yield SmallDisk(Path(f"/proc/{keeper.pid}/root") / mount_point.relative_to("/"))
        finally:
            keeper.stdin.close()
