"""What to do with one region: remove it, clear rows in it, or leave it alone and say why."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from ttmem.clean.lease import Use, leased
from ttmem.clean.open_file import Changed, key_of, opened
from ttmem.clean.ownership import foreign
from ttmem.clean.slots import Rows, judge_rows
from ttmem.clean.steps import ClearSlots, Key, LeftAlone, RemoveProbe, RemoveRegion
from ttmem.events import Remark
from ttmem.sizes import human
from ttmem.sources.host.probe_facts import probe_facts
from ttmem.sources.host.surroundings import surroundings
from ttmem.sources.shared_memory import scan_holders
from ttmem.sources.shared_memory.files import RegionFile
from ttmem.sources.shared_memory.lives import Lives
from ttmem.sources.shared_memory.source import read_region

# Layout 4 moves its totals by differences: whoever clears a row must subtract it as well, in one
# step that only a process which maps the region can take. Its runtime does so by itself.
_REAPS_BY_ITSELF = 4


class Judge:
    """Looks at processes once, for all regions of one plan."""

    def __init__(self, force: bool) -> None:
        self._force = force
        self._here = surroundings()
        self._holders = scan_holders()
        self._lives = Lives()
        self._contained = {pid for pids in self._holders.in_containers.values() for pid in pids}

    def region(self, file: RegionFile) -> ClearSlots | RemoveRegion | LeftAlone | None:
        """None if there is nothing to clean."""
        seen = read_region(file)
        if seen is None:
            return None
        if isinstance(seen, Remark):
            helps = f"sudo {_command(file.folder)}" if seen.kind == "other_user" else None
            return LeftAlone(file.path, seen.text, helps)
        contents, region = seen
        others = foreign(file.path, _command(file.folder))
        if others is not None:
            return others
        data, key = contents.copy.data, contents.key
        rows = judge_rows(data, key, self._lives, self._holders)
        mappers = self._holders.mapped_by.get(key, frozenset())
        use = Use.SOMEBODY if rows.live or mappers else _use(file.path, key)
        if use is Use.SOMEBODY:
            return self._clearing(file, key, rows, region.version, len(data), mappers)
        doubt = None if use is Use.NOBODY else self._doubt(mappers)
        if doubt is not None:
            return _doubtful(file.path, doubt)
        return RemoveRegion(file.path, key, data, rows.dead)

    def _clearing(
        self,
        file: RegionFile,
        key: Key,
        rows: Rows,
        version: int,
        length: int,
        mappers: frozenset[int],
    ) -> ClearSlots | LeftAlone | None:
        if not rows.dead:
            return None
        size = human(sum(slot.held for slot in rows.dead))
        if version == _REAPS_BY_ITSELF:
            return LeftAlone(
                file.path,
                f"{file.name}: {size} of dead processes in a region of layout 4 that is in use; "
                "its runtime clears them itself, totals included, when the next process opens "
                "the device",
            )
        doubt = self._doubt(mappers)
        if doubt is not None:
            return _doubtful(file.path, doubt)
        return ClearSlots(file.path, key, rows.dead, length)

    def _doubt(self, mappers: frozenset[int]) -> str | None:
        """Why a pid that is not here may still be alive."""
        if self._force:
            return None
        if not self._here.host_pids:
            return (
                "this is a container with pids of its own, so a process that is not here may be "
                "alive outside; run ttmem on the host"
            )
        if self._here.hidden_pids:
            return "/proc hides other users' processes, so who is alive is not known; run as root"
        if mappers & self._contained:
            return "a container uses it, whose pids are not those of this host"
        return None

    def probes(self, folder: str) -> Iterator[RemoveProbe | LeftAlone]:
        """Regions of the probe whose process is dead."""
        for facts in probe_facts(folder):
            key = key_of(facts.path)
            if not facts.left_over or key is None:
                continue
            others = foreign(facts.path, _command(folder))
            use = _use(facts.path, key) if others is None else Use.UNKNOWN
            doubt = None if use is Use.NOBODY else self._doubt(frozenset())
            name = os.path.basename(facts.path)
            if others is not None:
                yield others
            elif use is Use.SOMEBODY:
                yield LeftAlone(facts.path, f"{name}: its process is dead, but somebody reads it")
            elif doubt is not None:
                yield _doubtful(facts.path, doubt)
            else:
                yield RemoveProbe(facts.path, key, facts.pid, facts.size)


def _doubtful(path: str, doubt: str) -> LeftAlone:
    folder, name = os.path.split(path)
    return LeftAlone(path, f"{name}: {doubt}", f"{_command(folder)} --force --yes", by_force=True)


def _command(folder: str) -> str:
    return f"ttmem clean --shm {shlex.quote(folder)}"


def _use(path: str, key: Key) -> Use:
    try:
        with opened(path, key) as descriptor, leased(descriptor) as lease:
            return lease.use
    except Changed:
        return Use.UNKNOWN
