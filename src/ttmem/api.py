"""What programs call: snapshots as typed objects, and a few numbers under the names torch uses."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from ttmem.client.query import ServerConnection
from ttmem.clock import now_ns
from ttmem.errors import BadInput, TtmemError
from ttmem.events import MemoryKind
from ttmem.feeds import Feed, ServerFeed, open_feed
from ttmem.snapshots import Device, Snapshot

if TYPE_CHECKING:
    from ttmem.feeds import LocalFeed
    from ttmem.recording.recorder import Recorder

RECORD_EVERY_S = 0.1
_recording = threading.Lock()  # of the books and the recorder: a mark may come from any thread
_recorders: list[tuple[LocalFeed, Recorder]] = []


def snapshot(
    socket: str | None = None,
    detail: Iterable[str] = (),
    shm: str | None = None,
    *,
    telemetry: bool = False,
    at: str | float | None = None,
) -> Snapshot:
    """The state of all devices and processes now, or at an instant of a recording.

    `detail`: what to include in full: programs, buffers, cores, events, history.
    `socket`: ask this server. `shm`: read this directory. With neither, ask the server at the default path if there
    is one, else read what stock ttnn publishes in this host's shared memory.
    `telemetry`: include sensor readings.
    A recording can be given in place of the socket; `at` is then the instant: seconds since its start, "end" (the
    default), "peak:l1", "oom", "14:05:30".
    """
    recorded = at is not None or (socket is not None and os.path.isfile(socket))
    feed = open_feed(None, shm, file=socket, at=at) if recorded else open_feed(socket, shm)
    if telemetry:
        from ttmem.feeds.telemetry import telemetry_feed

        feed = telemetry_feed(feed, settled=True)
    return _read(feed, detail)


def _read(feed: Feed, detail: Iterable[str] = ()) -> Snapshot:
    try:
        return feed.read(detail)
    finally:
        feed.close()


@contextmanager
def record(
    file: str, *, shm: str | None = None, overwrite: bool = False, confidential: bool = False
) -> Iterator[None]:
    """Records this host while the block runs, as `ttmem record` does: watched processes, counters, sensors.

    In the file's name, %p, %h and %r stand for the pid, the host and the MPI rank. `shm`: read this directory.
    `overwrite`: replace the file if it exists. `confidential`: leave out command lines and directories.
    """
    from ttmem.feeds import LocalFeed
    from ttmem.feeds.recorded_telemetry import TelemetrySampler
    from ttmem.recording.files import FileSink, expanded
    from ttmem.recording.recorder import described

    feed = LocalFeed(shm)
    sink = FileSink(expanded(file), overwrite=overwrite)
    about = described(confidential=confidential)
    recorder = feed.record(sink, about, confidential=confidential)
    sampler = TelemetrySampler(recorder.telemetry)
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(RECORD_EVERY_S):
            with _recording, suppress(Exception):  # the program that records goes on
                feed.poll()
                sampler.write()

    thread = threading.Thread(target=follow, name="ttmem-record", daemon=True)
    thread.start()
    _recorders.append((feed, recorder))
    try:
        yield
    finally:
        ended.set()
        thread.join()
        with _recording:
            _recorders.remove((feed, recorder))  # now nobody else uses it
        with suppress(Exception):
            feed.poll()
        sampler.close()
        recorder.close()
        feed.close()


def mark(text: str) -> None:
    """Sets a marker in all recordings of this program: that of `ttmem run -o`, for example, and its own by `record`.

    Without the probe (`ttmem run`) only in its own.
    """
    from ttmem.probe.phases import reports_mark

    text = str(text)
    reported = reports_mark(text)
    with _recording:
        for feed, recorder in _recorders:
            if reported:
                with suppress(Exception):
                    feed.poll()
            if not (reported and feed.watches(os.getpid())):
                recorder.mark(text, now_ns(), os.getpid())


class DeviceOfTtnn(Protocol):
    """What `ttnn.open_device` and `ttnn.open_mesh_device` return."""

    def get_device_ids(self) -> Sequence[int]: ...


def memory_allocated(
    device: int | str | DeviceOfTtnn = 0,
    kind: str = "dram",
    socket: str | None = None,
    *,
    process: str = "this",
) -> int:
    """Bytes that this process holds on a device: ttnn's own, a logical id, or a unique id as a string.

    `kind`: dram, l1, l1_small, trace, cb or l1_used. `process`: "all" counts every process on the chip; if several
    devices have the same logical id, the one that this process uses is meant. Under the probe (`ttmem run`) bytes are
    reserved ones; without it they are those that stock ttnn counts. An unknown figure is an error that says why.
    """
    device, kind = _which(device), kind.lower()
    if _is_for_all(process):
        return _figure(_chosen(snapshot(socket), device), kind, "held")
    return _held_here(device, _checked_kind(kind, "held"), socket)


def max_memory_allocated(
    device: int | str | DeviceOfTtnn = 0,
    kind: str = "dram",
    socket: str | None = None,
    *,
    process: str = "this",
) -> int:
    """The peak of `memory_allocated` since this process started, or since `reset_peak`.

    For this process it needs the probe (`ttmem run`), and no server; `kind` is dram, l1, l1_small or trace, because no
    counter has the peak of circular buffers (`ttmem.watch` measures it). `process`: "all" is the peak of the chip since
    a server first saw it, and needs that server.
    """
    device, kind = _which(device), kind.lower()
    if _is_for_all(process):
        return _figure(_chosen(_read(ServerFeed(socket)), device), kind, "peak")
    from ttmem.measuring import own

    _no_server_for_one(socket)
    if kind in ("cb", "l1_used"):
        raise TtmemError(f"N/A: no counter has the peak of {kind}; measure it with ttmem.watch()")
    kind = _checked_kind(kind, "peak").upper()
    return own.counted(device, MemoryKind[kind], "recent_peak")


def reset_peak(
    device: int | str | DeviceOfTtnn | None = None,
    socket: str | None = None,
    *,
    process: str = "this",
) -> None:
    """Resets the peaks of a device, or of all devices, to what is held now.

    Those of this process need the probe, and no server; with `process="all"` those of the chip, which a server keeps.
    """
    device = None if device is None else _which(device)
    if not _is_for_all(process):
        from ttmem.measuring import own

        _no_server_for_one(socket)
        own.reset_peaks(device)
        return
    with ServerConnection(socket) as server:
        unique_id = None
        if device is not None:
            unique_id = _chosen(_read(ServerFeed(socket)), device).unique_id
        server.query("reset_peak", unique_id=unique_id)


def _which(device: int | str | DeviceOfTtnn) -> int | str:
    if isinstance(device, (int, str)) and not isinstance(device, bool):
        return device
    try:
        ids = list(device.get_device_ids())  # type: ignore[union-attr]
    except AttributeError:
        what = "a device of ttnn, a logical id, or a unique id as a string"
        raise BadInput(f"device is {what}, not {device!r}") from None
    if len(ids) != 1:
        raise BadInput(
            f"the mesh has {len(ids)} devices; ask for one of them: {', '.join(map(str, ids))}"
        )
    return int(ids[0])


def _is_for_all(process: str) -> bool:
    if process not in ("this", "all"):
        raise BadInput(f"process is 'this' or 'all', not {process!r}")
    return process == "all"


def _no_server_for_one(socket: str | None) -> None:
    if socket is not None:
        raise BadInput(
            "a server keeps peaks of chips only; add process='all', or leave out the socket"
        )


def _checked_kind(kind: str, which: str) -> str:
    known = ("dram", "l1", "l1_small", "trace", *(("cb", "l1_used") if which == "held" else ()))
    if kind not in known:
        raise BadInput(f"there is no memory called {kind!r}; ask for {', '.join(known)}")
    return kind


def _held_here(device: int | str, kind: str, socket: str | None) -> int:
    from ttmem.measuring import own

    watched = socket is None and own.why_unknown() is None
    if watched and kind not in ("cb", "l1_used"):
        return own.counted(device, MemoryKind[kind.upper()], "reserved")
    if socket is None and not own.runtime_is_loaded():
        return 0  # nothing can be allocated
    now = snapshot(socket)
    mine = [
        process for process in now.processes if os.getpid() in (process.pid, process.container_pid)
    ]
    if not mine:
        if watched and own.region_path() is None:
            return 0
        raise own.NotMeasured(
            "N/A: neither the probe nor the counters of ttnn know this process; `ttmem doctor` says why"
        )
    ids = {
        known.unique_id for known in now.devices if device in (known.logical_id, known.unique_id)
    }
    if not ids:
        return own.not_opened(device)
    held = [amounts for process in mine for uid, amounts in process.devices.items() if uid in ids]
    return sum(int(getattr(amounts, kind)) for amounts in held)


def _chosen(now: Snapshot, wanted: int | str) -> Device:
    """A logical id is unique only within one process; if several devices have it, prefer our own."""
    if isinstance(wanted, str):
        found = [device for device in now.devices if device.unique_id == wanted]
    else:
        found = [device for device in now.devices if device.logical_id == wanted]
    if len(found) > 1:
        used = {
            unique_id
            for process in now.processes
            if process.pid == os.getpid()
            for unique_id in process.devices
        }
        found = [device for device in found if device.unique_id in used] or found
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(device.unique_id for device in found)
        raise BadInput(
            f"{len(found):,} devices have the logical id {wanted}; ask by unique id: {which}"
        )
    known = ", ".join(f"{d.logical_id} ({d.unique_id})" for d in now.devices) or "none"
    raise BadInput(f"no process has reported device {wanted!r}; known are: {known}")


def _figure(device: Device, kind: str, which: str) -> int:
    if kind == "l1_used":
        return device.l1_used if which == "held" else _known(device.l1_peak, kind)
    if kind == "cb" and which == "held":
        return device.memory.cb.used
    if kind not in ("dram", "l1", "l1_small", "trace"):
        raise BadInput(
            f"there is no memory called {kind!r}; ask for dram, l1, l1_small, trace or l1_used"
        )
    return _known(getattr(getattr(device.memory, kind), which), kind)


def _known(value: int | None, kind: str) -> int:
    if value is None:
        raise TtmemError(
            f"the peak of {kind} is unknown: events of a watched process were overwritten before they were read;"
            " reset_peak() starts a new one"
        )
    return value
