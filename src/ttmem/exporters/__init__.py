"""Recordings for other tools: one writer for each format."""

from __future__ import annotations

import os
from importlib import import_module
from typing import BinaryIO

from ttmem.errors import BadInput, TtmemError
from ttmem.exporters.request import ExportRequest, private_file

FORMATS = {  # the module of this package, and its function of a request and a stream, or the path of a directory
    "perfetto": ("perfetto", "write_trace"),
    "parquet": ("tables", "write_parquet"),
    "pprof": ("profiles", "write_pprof"),
    "speedscope": ("profiles", "write_speedscope"),
    "collapsed": ("profiles", "write_collapsed"),
    "memory-viz": ("memory_viz", "write_window"),
    "visualizer": ("visualizer", "write_report"),
    "csv": ("tables", "write_csv"),
    "jsonl": ("tables", "write_json_lines"),
}
DIRECTORIES = ("parquet", "visualizer")


def export(request: ExportRequest, name: str, path: str | None, out: BinaryIO) -> None:
    """Writes to `path`, which must not exist, or to `out` if `path` is None and the format allows it."""
    if path is None and name in DIRECTORIES:
        raise BadInput(f"{name} is a directory and cannot be printed; name one with -o")
    module, function = FORMATS[name]
    write = getattr(import_module(f"{__name__}.{module}"), function)
    if path is None:
        write(request, out)
        return
    part = f"{path}.part-{os.getpid()}"  # a partial export never has the final name
    try:
        if name in DIRECTORIES:
            write(request, part)
        else:
            with private_file(part) as file:
                write(request, file)
        if os.path.lexists(path):
            raise BadInput(f"{path} exists; remove it, or name another place with -o")
        os.rename(part, path)
    except OSError as problem:
        _remove(part)
        raise TtmemError(f"{path} cannot be written: {problem.strerror}") from None
    except BaseException:
        _remove(part)
        raise


def _remove(path: str) -> None:
    import shutil

    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)
