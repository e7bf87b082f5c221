"""What programs call: the picture as typed objects, and the few numbers that users know from torch."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ttmem.client.query import ServerConnection
from ttmem.errors import BadInput, TtmemError
from ttmem.feeds import Feed, ServerFeed, open_feed
from ttmem.snapshots import Device, Snapshot


def snapshot(
    socket: str | None = None,
    detail: Iterable[str] = (),
    shm: str | None = None,
    *,
    telemetry: bool = False,
) -> Snapshot:
    """Everything at this instant; `detail` names what to add in full, `telemetry` adds what sensors say.

    `socket` asks that server, `shm` reads that folder; with neither, the server at the usual place
    if there is one, else what stock ttnn publishes in this host's shared memory.
    """
    feed = open_feed(socket, shm)
    if telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        feed = telemetry_feed(feed, settled=True)
    return _read(feed, detail)


def _read(feed: Feed, detail: Iterable[str] = ()) -> Snapshot:
    try:
        return feed.read(detail)
    finally:
        feed.close()


def memory_allocated(device: int | str = 0, kind: str = "dram", socket: str | None = None) -> int:
    """Bytes held on a device (logical id, or unique id as text): dram, l1, l1_small, trace, cb or l1_used.

    A logical id that several devices have is that of this process; if it uses none of them, an error.
    """
    return _figure(_chosen(snapshot(socket), device), kind, "held")


def max_memory_allocated(
    device: int | str = 0, kind: str = "dram", socket: str | None = None
) -> int:
    """The peak of `memory_allocated` since the server saw the device, or since `reset_peak`.

    Only a server has looked before; without one there is no peak to tell.
    """
    return _figure(_chosen(_read(ServerFeed(socket)), device), kind, "peak")


def reset_peak(device: int | str | None = None, socket: str | None = None) -> None:
    """Peaks of a device (None: of all) start again at what is held now."""
    with ServerConnection(socket) as server:
        picture = _read(ServerFeed(socket))
        unique_id = None if device is None else _chosen(picture, device).unique_id
        server.query("reset_peak", unique_id=unique_id)


def _chosen(picture: Snapshot, wanted: int | str) -> Device:
    """A number names a chip only inside one process: where several have it, ours is meant."""
    if isinstance(wanted, str):
        found = [device for device in picture.devices if device.unique_id == wanted]
    else:
        found = [device for device in picture.devices if device.logical_id == wanted]
    if len(found) > 1:
        used = {
            one for each in picture.processes if each.pid == os.getpid() for one in each.devices
        }
        found = [device for device in found if device.unique_id in used] or found
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(device.unique_id for device in found)
        raise BadInput(
            f"{len(found):,} devices have the logical id {wanted}; ask by unique id: {which}"
        )
    known = ", ".join(f"{d.logical_id} ({d.unique_id})" for d in picture.devices) or "none"
    raise BadInput(f"no process has reported device {wanted!r}; known are: {known}")


def _figure(device: Device, kind: str, which: str) -> int:
    if kind == "l1_used":
        return device.l1_used if which == "held" else _known(device.l1_peak, kind)
    if kind == "cb" and which == "held":
        return device.memory.cb.used
    if kind not in ("dram", "l1", "l1_small", "trace"):
        raise BadInput(
            f"there is no {which} figure for {kind!r}; ask for dram, l1, l1_small, trace or l1_used"
        )
    return _known(getattr(getattr(device.memory, kind), which), kind)


def _known(value: int | None, kind: str) -> int:
    """Of what is held now there always is a figure."""
    if value is None:
        raise TtmemError(
            f"the peak of {kind} is not known: events of a watched process were overwritten before they were read;"
            " reset_peak() starts a new one"
        )
    return value
