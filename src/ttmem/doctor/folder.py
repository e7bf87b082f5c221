"""The folder that holds the regions."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.clean import Plan
from ttmem.doctor.finding import CLEAN, Finding, Level
from ttmem.doctor.probes import cleanable
from ttmem.sizes import human
from ttmem.sources.host import HostFacts

# A region takes three pages; a runtime that finds no room for them dies of SIGBUS at its first
# write. Host libraries put far larger things there, so little room is worth a word before.
LEAST = 1 << 20
LITTLE_SHARE = 0.05


def folder_findings(facts: HostFacts, plan: Plan | None) -> Iterator[Finding]:
    folder = facts.folder
    if folder.size is None or folder.free is None:
        return  # the reader's own remark says why
    mend = f"sudo mount -o remount,size={_twice(folder.size)} {folder.path}"
    advice = "in a container: docker run --shm-size=SIZE ..."
    dead = sum(probe.size for probe in cleanable(facts, plan))
    if dead > LITTLE_SHARE * folder.size:  # they are what has filled it
        mend, advice = CLEAN, f"frees {human(dead)} of dead probe regions; for good: {mend}"
    left = f"{human(folder.free)} of {human(folder.size)} are left in {folder.path}"
    if folder.free < LEAST:
        text = f"{left}: a runtime that starts now may be killed (SIGBUS) or publish nothing"
        yield Finding("shm_full", Level.ERROR, text, mend, advice, path=folder.path)
    elif folder.free < LITTLE_SHARE * folder.size:
        yield Finding("shm_nearly_full", Level.WARNING, left, mend, advice, path=folder.path)


def _twice(size: int) -> str:
    return f"{max(2 * size >> 20, 64)}M"
