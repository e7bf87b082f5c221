"""The rules of the accounts, written down a second time for the tests: plain dictionaries."""

from __future__ import annotations

from collections import Counter
from typing import Any

GLOBAL, DATAFLOW, HIT, MISS = 2, 4, 16, 32


class Accounts:
    """What one process holds. Methods are events; `picture` is what tests compare."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[int, int, int], tuple[int, int]] = {}  # size, references
        self.cbs: Counter[tuple[int, int, int, int, int, int]] = Counter()
        self.kernels: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        self.statuses: dict[tuple[int, int], int] = {}
        self.counters: dict[int, list[int]] = {}
        self.rings: dict[int, tuple[int, ...]] = {}
        self.cache_entries: dict[int, int] = {}
        self.unknown_frees = 0

    def allocate(self, device: int, kind: int, number: int, size: int, count: int = 1) -> None:
        known = self.buffers.get((device, kind, number), (size, 0))
        references = known[1] + count if known[0] == size else count
        self.buffers[device, kind, number] = (size, references)

    def free(self, device: int, kind: int, number: int) -> None:
        known = self.buffers.pop((device, kind, number), None)
        if known is None:
            self.unknown_frees += 1
        elif known[1] > 1:
            self.buffers[device, kind, number] = (known[0], known[1] - 1)

    def allocate_cb(
        self,
        device: int,
        address: int,
        size: int,
        program: int = 0,
        cores: int = 0,
        flags: int = 0,
        count: int = 1,
    ) -> None:
        self.cbs[device, address, size, program, cores, flags & (GLOBAL | DATAFLOW)] += count

    def free_cb(
        self,
        device: int,
        address: int,
        size: int,
        program: int = 0,
        cores: int = 0,
        flags: int = 0,
    ) -> None:
        key = (device, address, size, program, cores, flags & (GLOBAL | DATAFLOW))
        if self.cbs[key] == 0:
            self.unknown_frees += 1
        self.cbs[key] = max(0, self.cbs[key] - 1)
        self._drop_if_bare(device, program)

    def load(
        self, device: int, kernel: int, size: int, cores: int, kind: int = 0, program: int = 0
    ) -> None:
        known = self.kernels.get((device, kernel))
        if known is not None and known[0] * known[1] == size * cores:
            self._count(device, dispatches=1)
            return
        if known is not None:
            self._remove_kernel(device, kernel)
        self._count(device, loads=1)
        self.kernels[device, kernel] = (size, cores, kind, program)

    def unload(self, device: int, kernel: int) -> None:
        if (device, kernel) in self.kernels:
            self._count(device, unloads=1)
            self._remove_kernel(device, kernel)
        else:
            self.unknown_frees += 1

    def dispatch(self, device: int, flags: int = 0) -> None:
        self._count(device, dispatches=1, hits=bool(flags & HIT), misses=bool(flags & MISS))

    def destroy(self, device: int, program: int) -> None:
        if program == 0:
            return
        for cb in [key for key in self.cbs if key[0] == device and key[3] == program]:
            del self.cbs[cb]
        for key, kernel in list(self.kernels.items()):
            if key[0] == device and kernel[3] == program:
                del self.kernels[key]
                self._count(device, unloads=1)
        self.statuses.pop((device, program), None)

    def status(self, device: int, program: int, status: int) -> None:
        if program:
            self.statuses[device, program] = status

    def set_counters(self, device: int, values: list[int]) -> None:
        self.counters[device] = values

    def _count(self, device: int, **steps: int) -> None:
        counters = self.counters.setdefault(device, [0] * 5)
        names = ("loads", "unloads", "dispatches", "hits", "misses")
        for index, name in enumerate(names):
            counters[index] += steps.get(name, 0)

    def _remove_kernel(self, device: int, kernel: int) -> None:
        program = self.kernels.pop((device, kernel))[3]
        self._drop_if_bare(device, program)

    def _drop_if_bare(self, device: int, program: int) -> None:
        cbs = any(n and key[0] == device and key[3] == program for key, n in self.cbs.items())
        kernels = any(k[0] == device and v[3] == program for k, v in self.kernels.items())
        if not cbs and not kernels:
            self.statuses.pop((device, program), None)

    def footprint(self, device: int) -> int:
        """Binary x cores over all kernels of a device."""
        return sum(k[0] * k[1] for key, k in self.kernels.items() if key[0] == device)

    def picture(self) -> dict[str, list[Any]]:
        """Everything, in an order of its own, fit for JSON."""
        return {
            "buffers": _rows(self.buffers),
            "cbs": _rows({key: n for key, n in self.cbs.items() if n}),
            "kernels": _rows(self.kernels),
            "statuses": _rows(self.statuses),
            "counters": _rows({key: v for key, v in self.counters.items() if any(v)}),
            "rings": _rows(self.rings),
            "cache_entries": _rows(self.cache_entries),
        }


def _rows(table: dict[Any, Any]) -> list[list[Any]]:
    rows = []
    for key, value in table.items():
        key = list(key) if isinstance(key, tuple) else [key]
        rows.append([*key, *value] if isinstance(value, (tuple, list)) else [*key, value])
    return sorted(rows)
