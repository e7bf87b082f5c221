"""How things are named on screen: devices, processes, sites, ages and times."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ttmem.events import CardSample
from ttmem.fast_dataclasses import replace
from ttmem.snapshots import Device, Process, Snapshot
from ttmem.text import ELLIPSIS, clean

if TYPE_CHECKING:
    from datetime import datetime, tzinfo


def age(nanoseconds: int) -> str:
    """'12 s', '4 min', '3 h', '2 d'."""
    seconds = max(nanoseconds, 0) // 1_000_000_000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


MILLISECOND = 1_000_000
SECOND = 1_000_000_000


def moment(time_ns: int, zone: tzinfo | None = None) -> str:
    """'2026-08-22 14:03:11 UTC'."""
    when = _local(time_ns, zone)
    return "time unknown" if when is None else when.strftime("%Y-%m-%d %H:%M:%S %Z")


def time_of_day(time_ns: int, zone: tzinfo | None) -> str:
    """'14:03:11'."""
    when = _local(time_ns, zone)
    return "unknown" if when is None else when.strftime("%H:%M:%S")


def clock(time_ns: int, zone: tzinfo | None) -> str:
    """'14:03:11.250'."""
    when = _local(time_ns, zone)
    if when is None:
        return "unknown"
    return f"{when:%H:%M:%S}.{time_ns // MILLISECOND % 1000:03}"


def _local(time_ns: int, zone: tzinfo | None) -> datetime | None:
    """None for an impossible time: clocks of other processes may say anything."""
    from datetime import datetime  # here, since `ps --json` prints no time

    try:
        return datetime.fromtimestamp(time_ns // SECOND, zone).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return None


SHORTEST_ID = 9
LONGEST_NUMBER = 3  # digits: no host has a thousand devices
NAMED = 4  # in one sentence, of those without a number of their own


class DeviceNames:
    """Names of the devices of one snapshot: logical ids, or shortened unique ids for all of them.

    Two processes with different `TT_VISIBLE_DEVICES` both call a device of theirs 0. Where that happens no device goes
    by its number, so that names on one screen look alike. `used`: unique ids of the devices that processes use (None:
    all); one that nobody uses takes no number away from these.
    """

    def __init__(self, devices: Iterable[Device], used: Collection[str] | None = None) -> None:
        devices = {device.unique_id: device for device in devices}.values()
        self._short = short_ids((device.unique_id for device in devices), SHORTEST_ID)
        self._numbers: Mapping[str, int] = {}
        numbered = {one.unique_id: one.logical_id for one in devices if one.logical_id is not None}
        first = {one: n for one, n in numbered.items() if used is None or one in used}
        taken = set(first.values())
        if len(taken) == len(first):
            others = Counter(n for one, n in numbered.items() if one not in first)
            rest = {one: n for one, n in numbered.items() if n not in taken and others[n] == 1}
            self._numbers = first | rest

    @classmethod
    def of(cls, snapshot: Snapshot) -> DeviceNames:
        return cls(snapshot.devices, used_devices(snapshot))

    def some(self, unique_ids: Iterable[str]) -> str:
        """'0-3,7', and by name those without a number of their own."""
        chosen = list(unique_ids)
        numbers = sorted(self._numbers[one] for one in chosen if one in self._numbers)
        others = [one for one in chosen if one not in self._numbers]
        return ",".join([*_runs(numbers), *map(self._name, others)])

    def sentence(self, unique_ids: Iterable[str]) -> str:
        """'device 0' or 'devices 0-3,7'; names are separated by spaces, so that a line can break between them."""
        chosen = list(unique_ids)
        numbered = [one for one in chosen if one in self._numbers]
        names = [self._name(one) for one in chosen if one not in self._numbers]
        more = [f"and {len(names) - NAMED:,} more"] * (len(names) > NAMED)
        listed = ", ".join([*([self.some(numbered)] * bool(numbered)), *names[:NAMED], *more])
        return f"{'device' if len(chosen) == 1 else 'devices'} {listed}"

    def _name(self, unique_id: str) -> str:
        """Its shortened unique id; one that could be taken for a number says what it is."""
        short = self._short.get(unique_id, clean(unique_id))
        return f"id {short}" if short.isdecimal() and len(short) <= LONGEST_NUMBER else short


def pids_text(pids: Sequence[int], most: int = 3) -> str:
    """'pid 41235', 'pids 1, 2, 3 and 4 more'."""
    more = f" and {len(pids) - most:,} more" if len(pids) > most else ""
    return f"{'pid' if len(pids) == 1 else 'pids'} {', '.join(map(str, pids[:most]))}{more}"


def numbers(logical_ids: Iterable[int]) -> str:
    """'device 0' or 'devices 0-3,7', of one process and in its own numbers; '' for none."""
    chosen = sorted(set(logical_ids))
    if not chosen:
        return ""
    return f"{'device' if len(chosen) == 1 else 'devices'} {','.join(_runs(chosen))}"


_used: tuple[Sequence[Process], frozenset[str]] = (), frozenset()


def used_devices(snapshot: Snapshot) -> frozenset[str]:
    """Unique ids of the devices that processes use; one screen asks for those of the same processes many times."""
    global _used
    processes, used = _used
    if processes is not snapshot.processes:
        used = frozenset(one for process in snapshot.processes for one in process.devices)
        _used = snapshot.processes, used
    return used


def in_order(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with its devices sorted by logical id.

    Where these do not tell devices apart, those of one process come together, and unused ones last.
    """
    last = sys.maxsize
    apart = len({one.logical_id for one in snapshot.devices}) == len(snapshot.devices)
    together = {} if apart else _meshes(snapshot)

    def place(one: Device) -> tuple[bool, str, int, str]:
        mesh = together.get(one.unique_id)
        number = last if one.logical_id is None else one.logical_id
        return bool(together) and mesh is None, mesh or "", number, one.unique_id

    return replace(snapshot, devices=tuple(sorted(snapshot.devices, key=place)))


def _meshes(snapshot: Snapshot) -> Mapping[str, str]:
    """Of each device that is used, the first unique id of those that processes use together with it."""
    first: dict[str, str] = {}
    for process in snapshot.processes:
        root = min((first.get(one, one) for one in process.devices), default="")
        first.update(dict.fromkeys(process.devices, root))
    return first


def logical(device: Device) -> str:
    """'0', or N/A for a device without a number."""
    return "N/A" if device.logical_id is None else str(device.logical_id)


def model(chip: Device | CardSample) -> str:
    """'n300 wormhole', 'n300 R wormhole', 'galaxy T1:N3 wormhole'; N/A if neither board nor arch is known."""
    return " ".join(filter(None, (board(chip), chip.board and chip.arch)))


def board(chip: Device | CardSample) -> str:
    """The same in short, without the architecture.

    As tt-smi and people call them: R is a remote chip, T1:N3 the third one of the first tray of a Galaxy.
    """
    if not chip.board:
        return chip.arch or "N/A"
    return " ".join(filter(None, (chip.board, chip.position or ("R" if chip.remote else None))))


def short_pci(device: Device | CardSample) -> str | None:
    """'01:00.0': the domain is named only if there is more than the first, as lspci does."""
    return device.pci.removeprefix("0000:") if device.pci else None


def _runs(numbers: list[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ["-".join(map(str, run)) for run in runs]


def short_ids(unique_ids: Iterable[str], width: int) -> Mapping[str, str]:
    """Ids cut in the middle to `width` letters; to more where two would look the same."""
    return _short_ids(tuple(unique_ids), width)


@lru_cache(1 << 4)  # the monitor asks for those of the same devices several times for each screen
def _short_ids(unique_ids: tuple[str, ...], width: int) -> Mapping[str, str]:
    full = {unique_id: clean(unique_id) for unique_id in unique_ids}
    longest = max(map(len, full.values()), default=0)
    for length in range(max(width, SHORTEST_ID), longest):
        # Letters to keep at the end: the even split first, then most of one side.
        for tail in ((length - 1) // 2, length - 4, 3):
            cut = {key: _cut(text, length, tail) for key, text in full.items()}
            if len(set(cut.values())) == len(full):
                return cut
    return full


def _cut(text: str, length: int, tail: int) -> str:
    if len(text) <= length:
        return text
    return text[: length - 1 - tail] + ELLIPSIS + text[len(text) - tail :]
