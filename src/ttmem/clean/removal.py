"""Taking a file away without taking it from under somebody.

The file first moves aside under a name that nobody knows, then is looked at once more, and only
then removed. Who opened it a moment earlier shows: as one who waits for the lease, or in the maps.
Then it moves back, and nobody has noticed anything.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ttmem.clean.lease import Lease, Use
from ttmem.clean.open_file import Changed, key_of
from ttmem.clean.steps import Key
from ttmem.sources.shared_memory import scan_holders


def remove(path: str, key: Key, lease: Lease) -> None:
    """`Changed` if somebody uses it now; then it is where it was."""
    aside = f"{os.path.dirname(path)}/.ttmem-clean-{os.getpid()}-{os.path.basename(path)}"
    os.rename(path, aside)
    reason = _reason_to_stop(aside, key, lease)
    if reason is not None:
        _move_back(aside, path)
        raise Changed(reason)
    os.unlink(aside)


def _reason_to_stop(aside: str, key: Key, lease: Lease) -> str | None:
    if key_of(aside) != key:
        return "was replaced meanwhile"
    if lease.somebody_waits():
        return "is being opened by somebody right now"
    if lease.use is not Use.NOBODY and scan_holders().mapped_by.get(key):
        return "is mapped by a process now"
    return None


def _move_back(aside: str, path: str) -> None:
    """Never over a new file of that name."""
    with suppress(FileExistsError):
        os.link(aside, path, follow_symlinks=False)
    os.unlink(aside)
