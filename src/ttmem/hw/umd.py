"""The chips of the machine as the user-mode driver finds them, if the extra `umd` is installed.

The driver is native code that accesses the chips. It runs in a child process, where it can neither crash a monitor nor
block it.
"""

from __future__ import annotations

import os
import threading
from importlib.util import find_spec

from ttmem.errors import BadInput
from ttmem.hw.cards import NODES
from ttmem.hw.descriptor import Cluster, read_cluster
from ttmem.own_python import installing, script_command

_DISCOVER = """\
import sys, tt_umd
tt_umd.TopologyDiscovery.discover()[0].serialize_to_file(sys.argv[1])
"""
_PATIENCE_S = 30


class Discovery:
    """Runs once, when it is first asked; the answer is None until it has finished."""

    def __init__(self, cards: str = NODES, *, wait_s: float = 0.0, script: str = _DISCOVER) -> None:
        self._cards = cards
        self._wait_s = wait_s
        self._script = script
        self._thread: threading.Thread | None = None
        self._cluster: Cluster | None = None

    def cluster(self) -> Cluster | None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="umd discovery")
            self._thread.start()
            self._thread.join(self._wait_s)
        return self._cluster

    def is_possible(self) -> bool:
        """Whether there is a card, and the driver's Python package."""
        return os.path.isdir(self._cards) and find_spec("tt_umd") is not None

    def _run(self) -> None:
        # Slow to import, and needed only on machines with a card and the extra.
        import subprocess
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ttmem-umd-") as folder:
            path = os.path.join(folder, "cluster.yaml")
            try:
                subprocess.run(
                    script_command(self._script, path),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_PATIENCE_S,
                    check=True,
                )
                self._cluster = read_cluster(path)
            except (OSError, subprocess.SubprocessError, BadInput):
                pass  # there are other sources of capacities


def check_umd() -> None:
    """BadInput if the driver's Python package, which --umd asks for, is not installed."""
    if find_spec("tt_umd") is None:
        raise BadInput(f"--umd needs the user-mode driver: {installing('umd')}")


def discovery(*, wanted: bool, once: bool = False) -> Discovery | None:
    """For `--umd`. `once`: the first call waits for the answer, since there is no second one."""
    if not wanted:
        return None
    check_umd()
    return Discovery(wait_s=_PATIENCE_S if once else 0.0)
