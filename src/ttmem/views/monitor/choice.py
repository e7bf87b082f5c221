"""What `--devices` and `--pid` leave of a picture while devices and processes come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ttmem.snapshots import Snapshot
from ttmem.views.idle import idle_sentence, without_idle
from ttmem.views.selection import is_device, none_of, select

MAP_OF_ALL = "l1_buffers"  # a map without the buffers of others would show their addresses as free


@dataclass(frozen=True, slots=True)
class Choice:
    """Devices by logical or unique id, processes by pid; an empty choice is everything."""

    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()

    def of(self, snapshot: Snapshot) -> tuple[Snapshot, str]:
        """What of the choice is there, and a sentence about what is not."""
        here = [one for one in self.devices if any(is_device(d, one) for d in snapshot.devices)]
        known = _pids(snapshot)
        missing = [f"device {one}" for one in self.devices if one not in here]
        missing += [f"process {pid}" for pid in self.pids if pid not in known]
        sentence = f"not there (yet): {', '.join(missing)}" if missing else ""
        if not self.devices:
            snapshot, idle = without_idle(snapshot)
            sentence = sentence or idle_sentence(idle)
        if self.devices and not here:
            return none_of(snapshot), sentence
        picture = select(snapshot, here, ())
        return (self._of_processes(picture) if self.pids else picture), sentence

    def _of_processes(self, picture: Snapshot) -> Snapshot:
        pids = [pid for pid in self.pids if pid in _pids(picture)]
        if pids:
            part = select(picture, (), pids)
        else:
            rows = _without_rows(picture.detail)
            part = replace(picture, processes=(), left_behind=(), detail=rows)
        if MAP_OF_ALL not in picture.detail:
            return part
        return replace(part, detail={**part.detail, MAP_OF_ALL: picture.detail[MAP_OF_ALL]})


def _without_rows(detail: Mapping[str, Any]) -> dict[str, Any]:
    """None of the processes that were asked for is there: what others have is not theirs."""
    return {name: [] if isinstance(value, list) else value for name, value in detail.items()}


def _pids(snapshot: Snapshot) -> set[int]:
    dead = {left.pid for left in snapshot.left_behind}
    return dead | {process.pid for process in snapshot.processes}
