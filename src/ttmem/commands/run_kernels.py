"""`ttmem run --log-kernels`: a line for each kernel that a watched process loads, read from its region."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.client.tracker import FRAMES, frame_line, headline
from ttmem.events import EVENT_SIZE, Event, KernelType, Op
from ttmem.probe.layout import Option
from ttmem.sizes import several
from ttmem.sources.probe_region import Batch, ProbeRegion
from ttmem.views.origins import SITES_OFF, UNKNOWN_SITE
from ttmem.views.text import clean


class KernelLog:
    """Reads one region from its first event on."""

    def __init__(self, region: ProbeRegion) -> None:
        self._region = region
        self._texts: dict[int, str] = {}

    def news(self) -> Iterator[str]:
        """The kernels since the last call, each with the frames that made its program; BadRegion as usual."""
        more = True
        while more:
            batch = self._region.new_events()
            yield from self._loads(batch)
            more = batch.more

    def _loads(self, batch: Batch) -> Iterator[str]:
        self._texts |= self._region.new_strings()
        if batch.lost:
            yield (
                f"ttmem: pid {self._region.pid}: {several(batch.lost, 'event')} overwritten before anybody read:"
                " kernel loads may be missing here (--events makes more room)"
            )
        ops = batch.events[::EVENT_SIZE]
        at = ops.find(Op.KERNEL_LOAD)
        while at >= 0:
            yield self._told(Event.unpack(batch.events, at * EVENT_SIZE))
            at = ops.find(Op.KERNEL_LOAD, at + 1)

    def _told(self, event: Event) -> str:
        name = self._texts.get(event.name)
        return "\n".join(
            [
                headline(
                    event.device,
                    KernelType(event.kind).name.title()
                    if event.kind in list(KernelType)
                    else "N/A",
                    event.size,
                    event.number,
                    event.id,
                    f"PID: {self._region.pid}",
                    *([f"Kernel: {clean(name)}"] if name else []),
                ),
                *self._frames(self._texts.get(event.site)),
            ]
        )

    def _frames(self, site: str | None) -> Iterator[str]:
        """'/src/model.py:42 forward' of the site, and of its callers where whole stacks are kept."""
        if site is None:
            sought = self._region.header().options & Option.CALL_SITES
            yield f"  {UNKNOWN_SITE if sought else SITES_OFF}"
            return
        for number, frame in enumerate(site.split("\n")[:FRAMES]):
            place, _, function = clean(frame).rpartition(" ")
            yield frame_line(number, function, place)
