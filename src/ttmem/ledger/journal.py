"""The native ledger with a journal: a record of every call that changes it (layout: `ttmem.events.record`).

Replaying a journal from the state in which it began (`Ledger.save`, `Ledger.restore`, `Ledger.replay`) gives the same
state, row for row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from ttmem._native import Ledger, Page
from ttmem.events import Control, Event

NamedPage = tuple[Page, int]  # and the serial number of the account there, which is not 0


class Journal(Protocol):
    """Receives the records. No method may raise: the sender of the events would be blamed for it."""

    def control(self, records: bytes, /) -> None:
        """A control record and its payload."""

    def batch(
        self, account: int, arrived_ns: int, position: int, data: bytes, begin: int, end: int, /
    ) -> NamedPage | None:
        """Events that the ledger has accepted: a part of `data`. None of them looks like a control record.

        If the journal names a page, the ledger itself appends there the next batches of the accounts for which it was
        told a serial number, until the page takes no more or another method of the journal is called.
        """

    def string(self, account: int, number: int, text: str, /) -> None:
        """A process has defined a string, which is not a record."""

    def interrupted(self) -> None:
        """Memory ran out in the middle of a call: only a new key frame has the state of the ledger."""


class _Several:
    """Passes everything to several journals."""

    def __init__(self, journals: Sequence[Journal]) -> None:
        self._journals = journals

    def control(self, records: bytes, /) -> None:
        for journal in self._journals:
            journal.control(records)

    def batch(
        self, account: int, arrived_ns: int, position: int, data: bytes, begin: int, end: int, /
    ) -> None:
        for journal in self._journals:
            journal.batch(account, arrived_ns, position, data, begin, end)

    def string(self, account: int, number: int, text: str, /) -> None:
        for journal in self._journals:
            journal.string(account, number, text)

    def interrupted(self) -> None:
        for journal in self._journals:
            journal.interrupted()


class JournaledLedger(Ledger):
    """A native ledger to which journals can be attached at any time. Until then, its methods are the native ones."""

    _journals: tuple[Journal, ...] = ()

    def __init__(self, *arguments: int, **keywords: int) -> None:
        super().__init__(*arguments, **keywords)
        self.followed: set[int] = set()  # accounts whose notices are accepted: those of a probe

    def follow_table(self, process: int, /) -> None:
        super().follow_table(process)
        self.followed.add(process)

    def release_process(self, process: int, /) -> None:
        super().release_process(process)
        self.followed.discard(process)

    def attach(self, journal: Journal) -> None:
        """Starts writing to the journal. The state before is `save()`."""
        self._write_to((*self._journals, journal))

    def detach(self, journal: Journal) -> None:
        self._write_to(tuple(other for other in self._journals if other is not journal))

    def string(self, process: int, number: int, text: str) -> None:
        """A process has defined a string: the journals get it before its next events."""
        self.forget_page()
        for journal in self._journals:
            journal.string(process, number, text)

    def _write_to(self, journals: tuple[Journal, ...]) -> None:
        self._journals = journals
        for name in _CALLS:
            self.__dict__.pop(name, None)
        journal = _Several(journals) if len(journals) > 1 else next(iter(journals), None)
        self.write_to(journal)
        if journal is not None:
            for name, record in _CALLS.items():
                native = getattr(JournaledLedger, name)
                self.__dict__[name] = partial(self._call, journal, native, record)

    def _call(
        self,
        journal: Journal,
        native: Callable[..., Any],
        record: Callable[..., bytes | None],
        *arguments: Any,
    ) -> Any:
        self.forget_page()
        try:
            result = native(self, *arguments)
        except MemoryError:
            journal.interrupted()
            raise
        if data := record(result, *arguments):
            journal.control(data)
        return result


def _control(
    op: Control, account: int = 0, number: int = 0, cores: int = 0, time: int = 0
) -> bytes:
    return Event(op, device=account, number=number, cores=cores, time=time).pack()


def _opened(index: int, owner: int = 0) -> bytes:
    return _control(Control.OPEN_PROCESS, index, owner)


def _added(index: int) -> bytes:
    return _control(Control.ADD_DEVICE, number=index)


def _cleared(done: bool, device: int, unbind: bool) -> bytes | None:
    return Event(Control.CLEAR_DEVICE, number=device, id=int(unbind)).pack() if done else None


def _bound(_: None, process: int, logical: int, device: int) -> bytes:
    return _control(Control.BIND, process, logical, device)


def _moved(done: bool, process: int, old: int, device: int, now: int) -> bytes | None:
    return _control(Control.MOVE_ACCOUNT, process, old, device, now) if done else None


def _cores_defined(_: None, process: int, number: int, mask: bytes) -> bytes:
    return _control(Control.DEFINE_CORES, process, number) + mask


def _of_process(op: Control) -> Callable[[None, int], bytes]:
    return lambda _, process: _control(op, process)


def _peak_reset(_: None, device: int) -> bytes:
    return _control(Control.RESET_PEAK, number=device)


def _banks_set(_: None, device: int, banks: int) -> bytes:
    return _control(Control.L1_BANKS, number=device, cores=banks)


_CALLS: dict[str, Callable[..., bytes | None]] = {
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
    "set_l1_banks": _banks_set,
}
