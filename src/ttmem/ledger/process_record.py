"""What the ledger knows of a process beside its bytes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from sys import getsizeof

from ttmem.events import DeviceDeclaration
from ttmem.ledger.probe_gaps import ProbeGaps
from ttmem.process_identity import ProcessFacts

MAX_STRINGS = 100_000
MAX_STRING_BYTES = 16 << 20
OF_A_STRING = 100  # bytes that its place costs


@dataclass(slots=True, eq=False)
class ProcessRecord:
    """A process that reported something, until it dies; or what one of its reporters said, as part of it."""

    index: int
    facts: ProcessFacts
    sources: set[str] = field(default_factory=set)
    connections: int = 0
    container_pid: int | None = None
    dropped: int = 0
    overflow: int = 0
    gaps: int = 0
    devices: dict[int, str] = field(default_factory=dict)  # logical id -> unique id
    declared: dict[int, DeviceDeclaration] = field(default_factory=dict)  # by logical id
    without_room: set[int] = field(
        default_factory=set
    )  # logical ids of devices that found no place
    incomplete: str | None = None  # why it must tell everything again
    strings: dict[int, str] = field(default_factory=dict)
    string_bytes: int = 0
    messages: dict[int, str] = field(default_factory=dict)  # of failed allocations, by time
    missing: tuple[str, ...] = ()  # what its probe cannot see
    probe: ProbeGaps = field(default_factory=ProbeGaps)
    binaries: dict[str, int | None] = field(default_factory=dict)  # in DRAM, as its probe saw them
    counted_as: ProcessRecord | None = None  # the account of the same process that counts instead
    reporter: str | None = None  # which of several connections of the process speaks here
    image: str | None = None  # the program that it ran then: `exec` begins another
    part_of: ProcessRecord | None = (
        None  # the first account of the process, if this is a further one
    )
    parts: list[ProcessRecord] = field(default_factory=list)  # the further ones, of the first

    @property
    def pid(self) -> int:
        """As the server's kernel numbers it."""
        return self.facts.pid

    @property
    def accounts(self) -> tuple[ProcessRecord, ...]:
        """All that was reported of the process over the same source: it adds up."""
        return (self, *self.parts)

    @property
    def title(self) -> str:
        """For sentences: 'pid 42 (python model.py)'."""
        program, _, arguments = (self.facts.command or "command unknown").partition(" ")
        command = f"{os.path.basename(program)} {arguments}".strip()
        return f"pid {self.pid} ({command if len(command) <= 60 else command[:59] + '…'})"

    @property
    def lost(self) -> int:
        """Events, or buffers that a client cannot tell again. What is beyond a probe's table is in its counters."""
        return self.dropped + (0 if "probe" in self.sources else self.overflow)

    def string_room(self, number: int, text: str) -> int | None:
        """How many bytes more it would take to keep a declared string; None if there is no room for it."""
        known = self.strings.get(number)  # a client says all of them again when it comes again
        grown = OF_A_STRING + getsizeof(text)
        if known is not None:
            grown -= OF_A_STRING + getsizeof(known)
        elif len(self.strings) >= MAX_STRINGS:
            return None
        return grown if self.string_bytes + grown <= MAX_STRING_BYTES else None
