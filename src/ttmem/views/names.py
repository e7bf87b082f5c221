"""How things are named on screen: devices, processes, sites, ages and times."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ttmem.events import CardSample
from ttmem.fast_dataclasses import replace
from ttmem.snapshots import Device, Snapshot
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
    """Names of the devices of one snapshot.

    A logical id names a device only if no other device has the same one: two
    processes with different `TT_VISIBLE_DEVICES` both call theirs 0. Then the shortened unique id
    is the name.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        devices = {device.unique_id: device for device in devices}.values()
        self._short = short_ids((device.unique_id for device in devices), SHORTEST_ID)
        count = Counter(device.logical_id for device in devices)
        self._numbers: Mapping[str, int] = {
            device.unique_id: device.logical_id
            for device in devices
            if device.logical_id is not None and count[device.logical_id] == 1
        }

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


def in_order(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with its devices sorted by logical id."""
    first = sys.maxsize
    devices = sorted(
        snapshot.devices,
        key=lambda d: (first if d.logical_id is None else d.logical_id, d.unique_id),
    )
    return replace(snapshot, devices=tuple(devices))


def logical(device: Device) -> str:
    """'0', or N/A for a device without a number."""
    return "N/A" if device.logical_id is None else str(device.logical_id)


def model(chip: Device | CardSample) -> str:
    """'n300 wormhole', 'n300 R wormhole', 'galaxy T1:N3 wormhole'; N/A if neither board nor arch is known."""
    if not chip.board:
        return chip.arch or "N/A"
    return " ".join(part for part in (chip.board, _mark(chip), chip.arch) if part)


def board(chip: Device | CardSample) -> str:
    """The same in short, without the architecture."""
    if not chip.board:
        return chip.arch or "N/A"
    return " ".join(part for part in (chip.board, _mark(chip)) if part)


def _mark(chip: Device | CardSample) -> str | None:
    """As tt-smi and people call them: R is a remote chip, T1:N3 the third one of the first tray of a Galaxy."""
    return chip.position or ("R" if chip.remote else None)


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
        for tail in _tails(length):
            cut = {key: _cut(text, length, tail) for key, text in full.items()}
            if len(set(cut.values())) == len(full):
                return cut
    return full


def _tails(length: int) -> tuple[int, ...]:
    """How many letters to keep at the end: the even split first, then most of one side."""
    return ((length - 1) // 2, length - 4, 3)


def _cut(text: str, length: int, tail: int) -> str:
    if len(text) <= length:
        return text
    return text[: length - 1 - tail] + ELLIPSIS + text[len(text) - tail :]
