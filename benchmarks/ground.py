"""What every benchmark stands on: folders of its own, waits that end, and a short form for the tests."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

SHORT_VARIABLE = "TTMEM_BENCH_SHORT"
PATIENCE_S = 120.0


class Failed(Exception):
    """A benchmark that cannot go on; nothing after it would mean anything."""


def amount(full: int, short: int) -> int:
    """How many of something: enough to measure, or just enough to show that the benchmark works."""
    return short if os.environ.get(SHORT_VARIABLE) else full


@contextmanager
def owners(count: int, paths: Iterable[str], size: int) -> Iterator[list[BaseProcess]]:
    """So many live processes that have these regions mapped, as the runtime has; others are not taken for owners."""
    maps = []
    for path in paths:
        with open(path, "wb+") as file:
            file.truncate(size)
            maps.append(mmap.mmap(file.fileno(), size))
    context = multiprocessing.get_context("fork")  # mappings are inherited
    children = [context.Process(target=signal.pause, daemon=True) for _ in range(count)]
    for child in children:
        child.start()
    try:
        yield [*children]
    finally:
        for child in children:
            child.kill()
            child.join()
        for mapping in maps:
            mapping.close()


@contextmanager
def own_folders() -> Iterator[None]:
    """Whatever else runs on this host, neither its regions nor its server are seen by what is measured."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("TTMEM", "TT_"))}
    # In shared memory, where regions are: on a disk, every first touch of a page is the file system's work.
    with tempfile.TemporaryDirectory(
        prefix=f"ttmem-bench-{os.getpid()}-", dir="/dev/shm"
    ) as folder:
        for name in kept.keys() - {SHORT_VARIABLE, "TTMEM_TTNN_CACHE", "TTMEM_TTNN_PYTHON"}:
            del os.environ[name]
        os.environ["TTMEM_SHM"] = os.environ["TTMEM_REGION_DIR"] = folder
        os.environ["TTMEM_SOCKET"] = os.path.join(folder, "nobody.sock")
        yield


def wait_until(done: Callable[[], bool], what: str, pause_s: float = 0.01) -> None:
    """Failed, with `what` in it, if that takes minutes."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise Failed(f"waited {PATIENCE_S:.0f} s in vain: {what}")
        time.sleep(pause_s)
