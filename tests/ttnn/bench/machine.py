"""One mocked machine: its chips have ids of their own, and every process on it shares them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from tests.ttnn.bench.boards import BOARDS, USUAL_SIZES, Sizes, descriptor, new_unique_ids
from tests.ttnn.bench.environment import Environment
from tests.ttnn.bench.session import Session

SHARED_MEMORY = Path("/dev/shm")


class Machine:
    """Closing it ends its sessions and removes every file that they made."""

    def __init__(self, environment: Environment, board: str) -> None:
        self.board = BOARDS[board]
        self.unique_ids = new_unique_ids(self.board.chips)
        # Not pytest's folder: the runtime makes sockets below it, whose paths must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="ttnn-"))
        self.descriptor = self.folder / "cluster.yaml"
        self.descriptor.write_text(descriptor(self.board, self.unique_ids))
        self.sessions: list[Session] = []
        self._environment = environment

    @property
    def regions(self) -> list[Path]:
        """The runtime's counters in shared memory, by logical id of the chip."""
        return [SHARED_MEMORY / f"tt_device_{unique}_memory" for unique in self.unique_ids]

    def session(
        self,
        sizes: Sizes = USUAL_SIZES,
        *,
        opened: bool = True,
        worker_dispatch: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> Session:
        """A process on this machine, with all chips opened as one mesh unless `opened` is false.

        With `worker_dispatch` the runtime's own programs take a row of compute cores, not Ethernet cores. A mocked T3K
        needs it for most operations: they plan with the rows that are there, and are held to those that were left.
        `variables` are added to its environment.
        """
        home = self.folder / str(len(self.sessions))
        home.mkdir()
        session = Session(
            self._environment.python,
            self.variables(home) | dict(variables or {}),
            home / "session.log",
        )
        self.sessions.append(session)
        if opened:
            how = f"ttnn.MeshShape({self.board.rows}, {self.board.columns}), **sizes"
            if worker_dispatch:
                how += (
                    ", dispatch_core_config=ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER)"
                )
            session.send(f"device = ttnn.open_mesh_device({how})", sizes=asdict(sizes))
        return session

    def variables(self, home: Path) -> dict[str, str]:
        """For a program on this machine; whatever the runtime writes, it writes below `home`."""
        return self._environment.variables() | {
            "HOME": str(home),
            "TMPDIR": str(home),
            "OMPI_MCA_btl_sm_backing_directory": str(home),
            "TT_METAL_MOCK_CLUSTER_DESC_PATH": str(self.descriptor),
            "TT_METAL_LOGGER_LEVEL": "FATAL",
        }

    def close(self) -> None:
        for session in self.sessions:
            session.close()
        for region in self.regions:
            region.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()
