"""What `--devices` and `--pid` leave of a picture while devices and processes come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ttmem.snapshots import Snapshot
from ttmem.views.idle import idle_sentence, without_idle
from ttmem.views.selection import is_device, none_of, select


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
        pids = [pid for pid in self.pids if pid in _pids(picture)]
        if self.pids and not pids:
            return replace(picture, processes=(), left_behind=()), sentence
        return select(picture, (), pids), sentence


def _pids(snapshot: Snapshot) -> set[int]:
    dead = {left.pid for left in snapshot.left_behind}
    return dead | {process.pid for process in snapshot.processes}
