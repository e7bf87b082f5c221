"""Whether a reading explains itself, so that the walk over /proc can wait.

The walk takes 0.2 ms for each process of the host. `ttmem ps` looks once: on a host of a thousand
processes it would be there after the answer is known.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ttmem.sources.shared_memory.holders import DRIVER, open_cards, process_file
from ttmem.sources.shared_memory.layout import Region
from ttmem.sources.shared_memory.lives import Lives


def is_puzzling(regions: Sequence[tuple[int, Region]], lives: Lives, cards: str) -> bool:
    """Is there an owner who may be another than the slot says, or one who has no slot?

    `regions` come with the uids of those who own the files.
    """
    names: dict[int, bytes] = {}
    for uid, region in regions:
        if region.references > len(region.slots):
            return True
        for pid, *_, updated_ns, name in region.slots:
            if pid <= 0 or not lives.fits(pid, updated_ns):
                return True
            # One of a container has its number from there; here it belongs to somebody else.
            if names.setdefault(pid, name) != name or lives[pid].uid != uid:
                return True
    if any(process_file(pid, "comm").strip() != _text(name) for pid, name in names.items()):
        return True
    if os.path.isdir(cards) and not os.path.isdir(DRIVER):
        return True
    return not names.keys() >= open_cards(cards).keys()


def _text(name: bytes) -> bytes:
    return name.partition(b"\0")[0]
