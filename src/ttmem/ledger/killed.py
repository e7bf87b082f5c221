"""Watched processes that were killed before anybody looked: their regions know better than counters what they held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ttmem.events import Amounts
from ttmem.snapshots import LeftBehind

if TYPE_CHECKING:
    from ttmem.events.probe_news import KilledProcess, ProbeNews
    from ttmem.ledger.books import Books


class KilledProcesses:
    """A region is read once, and only if counters name its process."""

    def __init__(self) -> None:
        self._regions: dict[tuple[int, str | None], KilledProcess] = {}
        self._held: dict[str, dict[str, Amounts] | None] = {}

    def take(self, killed: Iterable[KilledProcess]) -> None:
        """All that are there now."""
        # Of two with one pid the last life counts; the one before its `exec` has the longer name.
        last = sorted(killed, key=lambda one: one.path, reverse=True)
        self._regions = {(one.pid, one.user): one for one in last}
        paths = {one.path for one in self._regions.values()}
        self._held = {path: held for path, held in self._held.items() if path in paths}

    def better(self, ghost: LeftBehind, blank: Callable[[], Books]) -> LeftBehind:
        """With what the region says, if it is of the same process and has seen everything: also when it died."""
        region = self._regions.get((ghost.pid, ghost.user))
        if region is None:
            return ghost
        if region.path not in self._held:
            self._held[region.path] = _held(region, blank())
        held = self._held[region.path]
        if held is None or not held.keys() >= ghost.devices.keys():
            return ghost
        return replace(ghost, devices=held, died_ns=region.ended_ns)


def _held(region: KilledProcess, books: Books) -> dict[str, Amounts] | None:
    """None: there is nothing to be read, or it was not all seen."""
    news = region.last_words()
    if news is None or news.unseen or not news.tracking:
        return None
    ended = books.probed.take([replace(news, ended=True)], 0)
    held = dict(ended[0][1].devices) if ended else None
    return _counted(held, news) if held and news.unlisted else held


def _counted(held: dict[str, Amounts], news: ProbeNews) -> dict[str, Amounts]:
    """Of buffers the counters have those too that the table had no room for."""
    out = dict(held)
    for device in news.devices:
        counted = news.counters.get(device.logical_id)
        if counted is not None and device.unique_id in out:
            reserved = [kind.reserved for kind in counted.kinds]
            out[device.unique_id] = Amounts.of_kinds(reserved, out[device.unique_id].cb)
    return out
