"""Reads a cluster descriptor: the YAML that the driver writes about one machine's chips."""

from __future__ import annotations

import os
import stat

from ttmem.errors import BadInput
from ttmem.hw.chips import Chip, Cluster, Link
from ttmem.hw.descriptor import cluster_of
from ttmem.hw.fields import Field

__all__ = ["MAX_BYTES", "Chip", "Cluster", "Link", "parse_cluster", "read_cluster"]

# A 32-chip galaxy takes 20 KiB.
MAX_BYTES = 8 * 1024 * 1024


def read_cluster(path: str | os.PathLike[str]) -> Cluster:
    try:
        # A pipe or a device could keep us waiting, or never end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput(f"{path}: not a file; give a cluster descriptor in YAML")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path}: cannot be read: {reason}") from None
    return parse_cluster(data, str(path))


def parse_cluster(data: bytes, name: str) -> Cluster:
    """The cluster in these bytes; `name` is what error messages call them."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name}: larger than {MAX_BYTES} bytes; this is no cluster descriptor")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{name}: not text in UTF-8") from None
    from ttmem.hw.strict_yaml import load

    return cluster_of(Field(load(text, name), name))
