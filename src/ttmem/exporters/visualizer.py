"""The database that ttnn-visualizer opens: what was alive after each operation, just before the next one began.

It shows addresses and sizes in one bank, so buffers without an address, or with one that no memory has, are left out.
Tensors, arguments and the graph of operations are unknown to ttmem; their tables are empty.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import cache
from typing import Any

from ttmem.errors import BadInput
from ttmem.events import MemoryKind
from ttmem.exporters.events import Operation, operations
from ttmem.exporters.request import ExportRequest, private_file
from ttmem.recording import Batch, BufferChange
from ttmem.snapshots import Device

SCHEMA_VERSION = "3.5"  # of ttnn 0.81.1
MOST_ROWS = 20_000_000  # of live buffers: some 2 GB; the visualizer gives up earlier
_TABLES = {
    "devices": "device_id int, num_y_cores int, num_x_cores int, num_y_compute_cores int,"
    " num_x_compute_cores int, worker_l1_size int, l1_num_banks int, l1_bank_size int,"
    " address_at_first_l1_bank int, address_at_first_l1_cb_buffer int,"
    " num_banks_per_storage_core int, num_compute_cores int, num_storage_cores int,"
    " total_l1_memory int, total_l1_for_tensors int, total_l1_for_interleaved_buffers int,"
    " total_l1_for_sharded_buffers int, cb_limit int",
    "operations": "operation_id int unique, name text, duration float",
    "buffers": "operation_id int, device_id int, address int, max_size_per_bank int,"
    " buffer_type int, buffer_layout int",
    "operation_arguments": "operation_id int, name text, value text",
    "tensors": "tensor_id int unique, shape text, dtype text, layout text, memory_config text,"
    " device_id int, address int, buffer_type int, storage_type int",
    "device_tensors": "tensor_id int, device_id int, address int",
    "input_tensors": "operation_id int, input_index int, tensor_id int",
    "output_tensors": "operation_id int, output_index int, tensor_id int",
    "stack_traces": "operation_id int, stack_trace text",
    "captured_graph": "operation_id int, captured_graph text",
    "errors": "operation_id int, operation_name text, error_type text, error_message text,"
    " stack_trace text, timestamp text",
    "local_tensor_comparison_records": "tensor_id int, golden_tensor_id int, matches bool,"
    " desired_pcc float, actual_pcc float",
    "global_tensor_comparison_records": "tensor_id int, golden_tensor_id int, matches bool,"
    " desired_pcc float, actual_pcc float",
    "report_metadata": "key text, value text",
}
LARGEST = (1 << 63) - 1  # that SQLite holds
_Key = tuple[int, str, str, int]  # serial number of the process, device, memory, buffer id


def write_report(request: ExportRequest, path: str) -> None:
    os.mkdir(path, 0o700)
    file = os.path.join(path, "db.sqlite")
    private_file(file).close()
    try:
        with closing(sqlite3.connect(file)) as database:
            _Report(request, database).write()
            database.commit()
    except sqlite3.Error as problem:  # a full disk, say
        raise OSError(errno.EIO, str(problem)) from None


class _Report:
    def __init__(self, request: ExportRequest, database: sqlite3.Connection) -> None:
        ends = [request.live(instant, "programs") for instant in (request.first, request.last)]
        self._request = request
        self._database = database
        self._banks = cache(request.banks)
        self._devices = ends[-1].devices
        self._numbers = {device.unique_id: number for number, device in enumerate(self._devices)}
        self._rows = 0
        self._changes: deque[BufferChange] = deque()  # that are not in `_live` yet
        self._live: dict[_Key, tuple[int, int, int, int, int]] = {}
        # Events have the size on all cores together; the number of cores is known only for live circular buffers.
        self._per_core = {
            (cb.device, cb.program, cb.address): cb.per_core
            for end in ends
            for cb in end.circular_buffers or ()
        }

    def write(self) -> None:
        for name, columns in _TABLES.items():
            self._database.execute(f"create table {name} ({columns}, rank int default 0)")
        self._insert("devices", (_device(*numbered) for numbered in enumerate(self._devices)))
        metadata = {"schema_version": SCHEMA_VERSION, "exporter": "ttmem"}
        self._insert("report_metadata", metadata.items())
        number = 0
        last: Operation | None = None
        for step in operations(self._events()):
            if not step.own:
                continue
            if last is not None:
                number += 1
                self._advance(step.own[0].position)
                self._write(number, last)
            last = step
        self._advance(None)
        if last is not None:
            self._write(number + 1, last)

    def _write(self, number: int, step: Operation) -> None:
        self._rows += len(self._live)
        if self._rows > MOST_ROWS:
            raise BadInput(
                f"more than {MOST_ROWS:,} rows of live buffers after {number:,} operations;"
                " choose a shorter range with --from and --until"
            )
        seconds = (step.own[-1].time_ns - step.own[0].time_ns) / 1e9
        self._insert("operations", [(number, step.title, max(0.0, seconds))])
        self._insert("stack_traces", [(number, step.site or "")])
        self._insert("captured_graph", [(number, json.dumps(self._graph(step)))])
        self._insert("errors", _errors(number, step))
        self._insert("buffers", ((number, *row) for row in self._live.values()))

    def _insert(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        marks = ", ".join("?" * len(_TABLES[table].split(",")))
        self._database.executemany(f"insert into {table} values ({marks}, 0)", iter(rows))

    def _events(self) -> Iterator[Batch]:
        """What is alive is the ledger's answer: events do not tell that a process was killed, for example."""
        for stretch in self._request.recording.stretches(*self._request.span):
            self._changes.extend(stretch.buffers())
            yield from self._request.batches((stretch.first, stretch.end))

    def _advance(self, end: int | None) -> None:
        """Up to a position, or to the last change."""
        while self._changes and (end is None or self._changes[0].position < end):
            change = self._changes.popleft()
            key = (change.origin.process.serial, change.device, change.kind, change.id)
            number = self._numbers.get(change.device)
            if not change.begins:
                self._live.pop(key, None)
            elif number is not None and change.held and 0 < (change.address or 0) <= LARGEST:
                per_bank = change.held // self._banks(change.device, change.kind)
                kind = int(MemoryKind[change.kind])
                self._live[key] = (number, change.address or 0, per_bank, kind, 0)

    def _graph(self, step: Operation) -> list[dict[str, Any]]:
        """Circular buffers that the operation's programs allocated, in the form of the runtime's graph."""
        nodes: list[dict[str, Any]] = [
            {"counter": 0, "node_type": "capture_start", "params": {}, "connections": []}
        ]
        for row in step.rows:
            per_core = self._per_core.get((row.device, row.program, row.address or 0))
            if row.event == "cb_alloc" and row.device in self._numbers and per_core:
                params = {
                    "address": str(row.address or 0),
                    "size": str(per_core),
                    "core_range_set": "",
                    "globally_allocated": "0",
                    "device_id": str(self._numbers[row.device]),
                }
                node = {"node_type": "circular_buffer_allocate", "params": params}
                nodes.append({"counter": len(nodes), **node, "connections": []})
        end = {"node_type": "capture_end", "params": {}, "connections": []}
        return [*nodes, {"counter": len(nodes), **end}]


def _errors(number: int, step: Operation) -> Iterator[tuple[object, ...]]:
    for row in step.rows:
        if row.event == "allocation_failed":
            message = f"allocation of {row.requested or 0} bytes of {row.memory} failed"
            yield (number, row.op or "", "out of memory", message, row.site or "", "")


def _device(number: int, device: Device) -> tuple[object, ...]:
    columns, rows = device.grid or (0, 0)
    cores = (rows, columns, rows, columns)
    l1_map = device.l1_map
    if l1_map is None:
        return (number, *cores, *[0] * 13)
    banks, per_bank = l1_map.banks, l1_map.small_base - l1_map.base
    l1 = (l1_map.end, banks, per_bank, l1_map.base, l1_map.base, 1, banks, 0)
    tensors = banks * per_bank
    return (number, *cores, *l1, device.l1_total or 0, tensors, tensors, tensors, per_bank)
