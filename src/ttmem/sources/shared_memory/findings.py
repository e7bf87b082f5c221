"""What is wrong with a region, in words: each state has its own kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttmem.events import KINDS, Amounts, Owner, ProcessSample, Remark
from ttmem.process_identity import user_name
from ttmem.sizes import human
from ttmem.sources.shared_memory.layout import PROCESSES, Region

_NOT_SIMPLY_ALIVE = {
    Owner.DEAD: ("ghost", "has died and left {size} behind; no sum counts it"),
    Owner.REUSED: (
        "reused_pid",
        "has died and left {size} behind; its pid belongs to a younger process now",
    ),
    Owner.REPLACED: (
        "replaced_program",
        "has run another program since (exec) and left {size} behind; no sum counts it",
    ),
    Owner.ELSEWHERE: (
        "elsewhere",
        "holds {size}; it is alive in a container, and which process of this host it is, is unknown",
    ),
    Owner.UNVERIFIED: (
        "unverified",
        "is said to hold {size}, but it belongs to user {user}, and the file to user {owner}; "
        "no sum counts it",
    ),
    Owner.ROOT: (
        "root_in_region",
        "holds {size}, as a file of user {owner} says; it belongs to root, and is counted",
    ),
}


def owner_remark(process: ProcessSample, owner: int | None, user: int | None) -> Remark:
    """Of a process that is not simply alive; `owner` is the uid of the file, `user` that of the process."""
    kind, text = _NOT_SIMPLY_ALIVE[process.owner]
    size = process.counters.all
    said = text.format(
        size=human(size) if size else "an empty slot",
        owner=user_name(owner),
        user=user_name(user) or "unknown (hidden)",
    )
    return Remark(kind, f"process {process.pid} ({process.name}) {said}", process.pid, size)


def table_remarks(region: Region) -> Iterator[Remark]:
    if len(region.slots) == PROCESSES:
        yield Remark(
            "table_full",
            f"all {PROCESSES} process slots are in use: further processes are not listed, and "
            "what they hold is not known",
        )


def cross_checks(counted: Amounts, region: Region) -> Iterator[Remark]:
    """The region says the same thing three times; live slots are what ttmem goes by.

    What differs by design is no news. Before layout 4 the stored CB is that of the last writer alone, less
    what others had when they closed the device. Chip counters keep what a process had that closed it while
    others had it open; they are cleared when the last one goes.
    """
    kinds = KINDS if region.version == 4 else KINDS[:-1]
    differences = _differences(region.totals, counted, kinds)
    if differences:
        yield Remark(
            "totals_disagree",
            f"the stored totals are not the sum of the live processes: {_in_words(differences)}",
            bytes=sum(there - here for there, here in differences.values()),
        )
    differences = {} if region.chips is None else _differences(region.chips, region.totals, kinds)
    if region.references or region.version == 1:  # which does not clear those of chip 0
        differences = {name: pair for name, pair in differences.items() if pair[0] < pair[1]}
    if differences:
        yield Remark(
            "chips_disagree",
            f"the chip counters are not the stored totals: {_in_words(differences)}",
            bytes=sum(there - here for there, here in differences.values()),
        )


def _differences(one: Amounts, other: Amounts, kinds: Sequence[str]) -> dict[str, tuple[int, int]]:
    if one == other:
        return {}
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in kinds}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _in_words(differences: dict[str, tuple[int, int]]) -> str:
    return ", ".join(
        f"{name.upper()} {' instead of '.join(_told_apart(there, here))}"
        for name, (there, here) in differences.items()
    )


def _told_apart(there: int, here: int) -> tuple[str, str]:
    """In bytes, where the rounded sizes would read the same."""
    texts = human(there), human(here)
    return texts if texts[0] != texts[1] else (f"{there:,} B", f"{here:,} B")
