"""Slots of live processes of this host, with nothing to explain: nearly all, so read quickly.

A full machine has 2,048 slots. Column by column they take a third of the time of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import le
from typing import Any

from ttmem.events import Amounts, Owner, ProcessSample
from ttmem.events.device import LARGEST
from ttmem.sources.shared_memory.holders import Holders, RegionKey
from ttmem.sources.shared_memory.layout import Slot
from ttmem.sources.shared_memory.lives import Life, Lives

# Each field for all slots, then each of the lives of their pids.
Columns = tuple[tuple[Any, ...], ...]
_FIELDS = 8 + len(Life._fields)
# Named tuples, made without their constructors' detour.
_new: Callable[[type, Iterable[Any]], Any] = tuple.__new__


def _columns(slots: Sequence[Slot], lives: Lives) -> Columns:
    if not slots:
        return ((),) * _FIELDS
    columns = tuple(zip(*slots, strict=True))
    return (*columns, *zip(*map(lives.__getitem__, columns[0]), strict=True))


def divided(
    slots: Sequence[Slot], region: RegionKey, uid: int | None, lives: Lives, holders: Holders
) -> tuple[Columns, Amounts, Sequence[Slot]]:
    """(those of live processes of this host, with nothing to explain; their sum; the others)."""
    inside = holders.in_containers
    plain = _columns(slots, lives)
    odd: Sequence[Slot] = ()
    pids, *_, updates, _, _, _, since, uids = plain
    unseen = set(pids) - holders.mapped_by.get(region, frozenset())
    explain = {pid for pid in unseen if lives[pid].alive and lives.has_left(pid, region)}
    explain |= inside.keys() & set(pids)
    if uid is not None and uids.count(uid) < len(uids):
        explain |= {pid for pid in pids if lives[pid].uid != uid}
    if explain or not all(map(le, since, updates)):
        odd = [slot for slot in slots if slot[0] in explain or lives[slot[0]].since_ns > slot[6]]
        others = set(map(id, odd))
        plain = _columns([slot for slot in slots if id(slot) not in others], lives)
        pids = plain[0]
    held = Amounts(*map(sum, plain[1:6]))
    # No counter is negative: where the sums are possible, so is each of them.
    impossible = max(held) >= LARGEST and max(map(max, plain[1:6])) >= LARGEST
    if impossible or len(set(pids)) < len(pids):
        return _columns((), lives), Amounts(), slots
    return plain, held, odd


def plain_samples(plain: Columns, texts: tuple[str, ...]) -> tuple[ProcessSample, ...]:
    pids, dram, l1, l1_small, trace, cb, updates, _, _, starts, _, _ = plain
    counters = map(_new, repeat(Amounts), zip(dram, l1, l1_small, trace, cb, strict=True))
    live, nowhere_else = repeat(Owner.LIVE), repeat(None)
    nothing = repeat(None)  # of kernels
    columns = zip(pids, starts, texts, live, counters, updates, nowhere_else, nothing, strict=False)
    return tuple(map(_new, repeat(ProcessSample), columns))
