"""The native ledger with a journal: a record for every call that changes it (`ttmem.events.record` has the layout).

Replaying a journal into the state in which it began (`Ledger.save`, `Ledger.restore`, `Ledger.replay`) leads to the
same state, row for row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from ttmem._native import Ledger
from ttmem.events import EVENT_SIZE, NO_POSITION, Control, Event

Records = bytes | memoryview
_UNKNOWN_OP = 127  # neither an event nor a control record
_NO_CONTROL = bytes(min(op, _UNKNOWN_OP) for op in range(256))


class Journal(Protocol):
    """Where the records go. No method may raise: that would look like a fault of the process that sent them."""

    def records(self, data: Records, /) -> None:
        """Whole records, in order. The events of a batch come in the call after their BATCH record."""

    def string(self, account: int, number: int, text: str, /) -> None:
        """A process has defined a string; it is no record."""

    def interrupted(self) -> None:
        """Memory ran out in the middle of a call: only a new key frame has the state of the ledger."""


class _Several:
    """The same journal, written by each."""

    def __init__(self, journals: Sequence[Journal]) -> None:
        self._journals = journals

    def records(self, data: Records, /) -> None:
        for journal in self._journals:
            journal.records(data)

    def string(self, account: int, number: int, text: str, /) -> None:
        for journal in self._journals:
            journal.string(account, number, text)

    def interrupted(self) -> None:
        for journal in self._journals:
            journal.interrupted()


class JournaledLedger(Ledger):
    """A native ledger to which journals can be attached at any time; until then its methods are the native ones."""

    position = NO_POSITION  # in their source, of the events that are applied next
    journal: Journal | None = None
    _journals: tuple[Journal, ...] = ()

    def attach(self, journal: Journal) -> None:
        """Writes it from now on; what the ledger has before is `save()`."""
        self._write_to((*self._journals, journal))

    def detach(self, journal: Journal) -> None:
        self._write_to(tuple(one for one in self._journals if one is not journal))

    def _write_to(self, journals: tuple[Journal, ...]) -> None:
        self._journals = journals
        self.journal = _Several(journals) if len(journals) > 1 else next(iter(journals), None)
        for name, records in _CALLS.items():
            self.__dict__.pop(name, None)
            if self.journal is not None:
                native = getattr(Ledger, name)
                self.__dict__[name] = partial(self._call, self.journal, native, records)

    def _call(
        self,
        journal: Journal,
        native: Callable[..., Any],
        records: Callable[..., Iterable[Records]],
        *arguments: Any,
    ) -> Any:
        try:
            result = native(self, *arguments)
        except MemoryError:
            journal.interrupted()
            raise
        for data in records(self, result, *arguments):
            journal.records(data)
        return result


def _control(
    op: Control, account: int = 0, number: int = 0, cores: int = 0, time: int = 0
) -> bytes:
    return Event(op, device=account, number=number, cores=cores, time=time).pack()


def _opened(_: object, index: int, owner: int = 0) -> list[Records]:
    return [_control(Control.OPEN_PROCESS, index, owner)]


def _added(_: object, index: int) -> list[Records]:
    return [_control(Control.ADD_DEVICE, number=index)]


def _cleared(_: object, done: bool, device: int, unbind: bool) -> list[Records]:
    record = Event(Control.CLEAR_DEVICE, number=device, id=int(unbind))
    return [record.pack()] if done else []


def _bound(_: object, result: None, process: int, logical: int, device: int) -> list[Records]:
    return [_control(Control.BIND, process, logical, device)]


def _moved(_: object, done: bool, process: int, old: int, device: int, now: int) -> list[Records]:
    return [_control(Control.MOVE_ACCOUNT, process, old, device, now)] if done else []


def _cores_defined(
    _: object, result: None, process: int, number: int, mask: bytes
) -> list[Records]:
    return [_control(Control.DEFINE_CORES, process, number) + mask]


def _of_process(op: Control) -> Callable[[object, None, int], list[Records]]:
    return lambda _, result, process: [_control(op, process)]


def _peak_reset(_: object, result: None, device: int) -> list[Records]:
    return [_control(Control.RESET_PEAK, number=device)]


def _applied(
    ledger: JournaledLedger,
    taken: int,
    process: int,
    events: bytes,
    offset: int,
    length: int,
    now: int,
) -> list[Records]:
    if not taken:
        return []
    batch = Event(Control.BATCH, device=process, time=now, id=ledger.position, size=taken)
    end = offset + taken * EVENT_SIZE
    ops = events[offset:end:EVENT_SIZE]
    if ops.isascii():
        return [batch.pack(), memoryview(events)[offset:end]]
    # A reader tells events from control records by their op; which of the unknown ones it was matters to nobody.
    copy = bytearray(events[offset:end])
    copy[::EVENT_SIZE] = ops.translate(_NO_CONTROL)
    return [batch.pack(), bytes(copy)]


def _applied_in_words(
    ledger: JournaledLedger, result: tuple[int, bytes], *arguments: Any
) -> list[Records]:
    return _applied(ledger, result[0], *arguments[:5])


_CALLS: dict[str, Callable[..., Iterable[Records]]] = {
    "open_process": _opened,
    "release_process": _of_process(Control.RELEASE_PROCESS),
    "add_device": _added,
    "clear_device": _cleared,
    "bind": _bound,
    "move_account": _moved,
    "define_cores": _cores_defined,
    "follow_table": _of_process(Control.FOLLOW_TABLE),
    "begin_resync": _of_process(Control.BEGIN_RESYNC),
    "end_resync": _of_process(Control.END_RESYNC),
    "reset_peak": _peak_reset,
    "apply": _applied,
    "apply_in_words": _applied_in_words,
}
