"""What a snapshot needs besides the native ledger, as a document, and books made from it again.

The document has sections, each with entries by key, so that only changed entries are written:

========= ============ =====================================================================================
section   key          entry
========= ============ =====================================================================================
accounts  ledger index process, sources, devices, losses, what its probe cannot see
devices   ledger index unique id, declarations, polled peaks
counted   index        a process that only counters name
samples   unique id    the latest counters of a device
books     name         left behind, losses of ended processes, remarks, faults, limits, failed allocations
========= ============ =====================================================================================
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ttmem.events import Amounts, DeviceDeclaration, DeviceSample, MemoryKind, Owner, Remark
from ttmem.events.samples import ProcessSample
from ttmem.ledger import Books, DeviceRecord, ProcessRecord
from ttmem.ledger.journal import JournaledLedger
from ttmem.ledger.peaks import PolledPeaks
from ttmem.ledger.processes import ProbeGaps
from ttmem.procfs import ProcessFacts
from ttmem.snapshots import Anomaly, LeftBehind, Provenance

Document = dict[str, dict[str, Any]]
SECTIONS = ("accounts", "devices", "counted", "samples", "books")


def changes(before: Document, now: Document) -> Document:
    """What to apply to one document to get the other; a removed entry is None."""
    out: Document = {}
    for section in SECTIONS:
        old, new = before.get(section, {}), now.get(section, {})
        changed = {key: entry for key, entry in new.items() if old.get(key) != entry}
        changed.update(dict.fromkeys(old.keys() - new.keys()))
        if changed:
            out[section] = changed
    return out


def apply_changes(document: Document, changed: Any) -> None:
    """Changes as they came from a file."""
    for section in SECTIONS:
        for key, entry in changed.get(section, {}).items():
            if entry is None:
                document.setdefault(section, {}).pop(key, None)
            else:
                document.setdefault(section, {})[key] = entry


_PROGRAM = re.compile(r"(pid \d+) \([^()]*\)")
_FOLDERS = re.compile(r"(?<![\w.])(?:~|\.{1,2})?/(?:[^/\s:()'\"]+/)*")


def without_secrets(value: Any) -> Any:
    """A document without command lines, and with the last part only of each path."""
    if isinstance(value, dict):
        return {
            key: None
            if key == "command"
            else _facts_only(entry)
            if key == "facts"
            else without_secrets(entry)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_secrets(entry) for entry in value]
    if isinstance(value, str):
        return _FOLDERS.sub("", _PROGRAM.sub(r"\1", value))
    return value


def _facts_only(facts: list[Any]) -> list[Any]:
    pid, start, user, _ = facts
    return [pid, start, user, None]


# -- books to documents --------------------------------------------------------------------------


def context_of(books: Books, host: Mapping[str, Any], serials: Mapping[int, int]) -> Document:
    """Plain values only, ready for JSON; `serials` of the accounts by index."""
    samples = books.counters.samples
    return {
        "accounts": {
            str(index): account(one, serials.get(index, 0))
            for index, one in books.processes.items()
        },
        "devices": {str(record.index): device(record) for record in books.devices},
        "counted": {str(one.index): _counted(key, one) for key, one in samples.known()},
        "samples": {one.unique_id: _sample(one) for one in _samples(books)},
        "books": {
            "host": dict(host),
            "watchful": books.watchful,
            "rejected_outside": books.rejected_outside,
            "dead_losses": dict(books.dead_losses),
            "left_behind": [_left(one) for one in (*books.left_behind, *_ghosts(books))],
            "remarks": [list(_fields(one, Remark)) for one in samples.remarks],
            "anomalies": _anomalies((*books.faults.anomalies(), *books.limits.anomalies())),
            "odd": [[device, *odd] for device, odd in _odd(books)],
        },
    }


def account(one: ProcessRecord, serial: int) -> dict[str, Any]:
    """One entry of the section `accounts`."""
    gaps = one.probe
    return {
        "serial": serial,
        "facts": _facts(one.facts),
        "sources": sorted(one.sources),
        "connections": one.connections,
        "container_pid": one.container_pid,
        "dropped": one.dropped,
        "overflow": one.overflow,
        "gaps": one.gaps,
        "devices": {str(number): unique_id for number, unique_id in one.devices.items()},
        "messages": {str(time): text for time, text in one.messages.items()},
        "missing": list(one.missing),
        "binaries": dict(one.binaries),
        "counted_as": one.counted_as.index if one.counted_as else None,
        "part_of": one.part_of.index if one.part_of else None,
        "probe": {
            "tracking": gaps.tracking,
            "call_sites": gaps.call_sites,
            "unseen": gaps.unseen,
            "missed": gaps.missed,
            "uncounted": sorted(gaps.uncounted),
            "table_full": gaps.table_full,
            "unlisted": gaps.unlisted,
            "alive": {key: list(counts) for key, counts in gaps.alive.items()},
            "lower_bound": sorted(gaps.lower_bound),
        },
    }


def device(record: DeviceRecord) -> dict[str, Any]:
    """One entry of the section `devices`."""
    return {
        "unique_id": record.unique_id,
        "declaration": record.declaration.to_json(),
        "declared_by": record.declared_by,
        "identity": list(_fields(record.identity, Provenance)),
        "by_process": {str(index): one.to_json() for index, one in record.by_process.items()},
        "by_counters": record.by_counters,
        "vacated": record.vacated,
        "polled": record.polled.saved(),
        "counted": record.counted,
        "l1_peak_missed": record.l1_peak_missed,
        "one_layout": record.one_layout,
        "largest": {str(int(kind)): size for kind, size in record.largest.items()},
    }


def _fields(one: Any, kind: Any) -> Iterator[Any]:
    return (getattr(one, name) for name in kind.__dataclass_fields__)


def _facts(facts: ProcessFacts) -> list[Any]:
    return [facts.pid, facts.start_time_ns, facts.user, facts.command]


def _counted(identity: tuple[Any, ...], one: ProcessRecord) -> dict[str, Any]:
    return {
        "identity": list(identity),
        "facts": _facts(one.facts),
        "container_pid": one.container_pid,
    }


def _samples(books: Books) -> Iterable[DeviceSample]:
    """In the order of the reading."""
    devices = [one.device for one in books.counters.samples.accounts]
    found = {one.unique_id: one.sample for one in (*devices, *books.devices) if one.sample}
    return found.values()


def _sample(sample: DeviceSample) -> dict[str, Any]:
    document = {name: getattr(sample, name) for name in _PLAIN}
    document["declaration"] = sample.declaration and sample.declaration.to_json()
    document["processes"] = [[*one[:3], one.owner.value, *one[4:]] for one in sample.processes]
    document["remarks"] = [list(_fields(one, Remark)) for one in sample.remarks]
    return document


_PLAIN = (
    "unique_id",
    "path",
    "version",
    "logical_id",
    "stored",
    "chips",
    "cb_method",
    "misses",
    "capacity_source",
    "references",
    "user",
    "counts_kernels",
)


def _ghosts(books: Books) -> Iterator[LeftBehind]:
    return map(books.probed.better, books.counters.ghosts(books.left_behind))


def _left(one: LeftBehind) -> dict[str, Any]:
    return {**asdict(one), "devices": {key: list(held) for key, held in one.devices.items()}}


def _anomalies(found: Iterable[Anomaly]) -> list[list[Any]]:
    return [list(_fields(one, Anomaly)) for one in found]


def _odd(books: Books) -> Iterator[tuple[str, list[Any]]]:
    """Anomalies of devices that come from what was read in the past, by unique id."""
    checks = books.counters.cross_checks(books.processes, books.account_rows())
    found = [
        *books.counters.odd(checks, books.processes),
        *books.probed.checks.odd(books.processes),
    ]
    for place, anomaly in found:
        yield books.devices[place[1]].unique_id, list(_fields(anomaly, Anomaly))
    for record in books.devices:
        base = record.l1_map.base if record.l1_map else None
        failed = books.probed.failures.of(record.unique_id, record.declaration, base)
        for anomaly in failed:
            yield record.unique_id, list(_fields(anomaly, Anomaly))


# -- documents to books --------------------------------------------------------------------------


class _Said:
    """Stands in for whatever found anomalies while the books were live."""

    def __init__(self, remarks: list[Anomaly], odd: list[tuple[str, Anomaly]]) -> None:
        self._remarks, self._odd = remarks, odd

    def anomalies(self) -> list[Anomaly]:
        return self._remarks

    def of(self, device: str, *_: object) -> Iterator[Anomaly]:
        return (anomaly for unique_id, anomaly in self._odd if unique_id == device)

    def odd(self, *_: object) -> Iterator[Any]:
        return iter(())


def books_from(
    document: Mapping[str, Mapping[str, Any]],
    ledger: JournaledLedger,
    strings: Mapping[int, Mapping[int, str]],
) -> Books:
    """Books that make the snapshot of that instant; `strings` by index. Any exception: the document is no context."""
    about = document["books"]
    books = Books(watchful=bool(about["watchful"]))
    known = {int(key): entry for key, entry in document.get("devices", {}).items()}
    for index in range(len(known)):
        books.restore_device(_device_record(index, known[index]))
    accounts = {int(key): entry for key, entry in document.get("accounts", {}).items()}
    for index, entry in sorted(accounts.items(), key=lambda one: int(one[1]["serial"])):
        books.processes[index] = _process(index, entry, strings.get(index, {}))
    for index, entry in accounts.items():
        process = books.processes[index]
        if entry["counted_as"] is not None:
            process.counted_as = books.processes[entry["counted_as"]]
        if entry["part_of"] is not None:
            process.part_of = books.processes[entry["part_of"]]
            process.part_of.parts.append(process)
    books.native = ledger
    _take_samples(books, document)
    books.rejected_outside = about["rejected_outside"]
    books.dead_losses.update(about["dead_losses"])
    books.left_behind = deque(_left_behind(one) for one in about["left_behind"])
    odd = [(unique_id, Anomaly(*fields)) for unique_id, *fields in about["odd"]]
    said: Any = _Said([Anomaly(*fields) for fields in about["anomalies"]], odd)
    books.faults = books.probed.failures = books.probed.checks = said
    return books


def _declaration(document: Any) -> DeviceDeclaration:
    return DeviceDeclaration.from_json(document)


def _device_record(index: int, entry: Mapping[str, Any]) -> DeviceRecord:
    return DeviceRecord(
        index,
        entry["unique_id"],
        _declaration(entry["declaration"]),
        entry["declared_by"],
        Provenance(*entry["identity"]),
        by_process={int(key): _declaration(one) for key, one in entry["by_process"].items()},
        by_counters=entry["by_counters"],
        vacated=entry["vacated"],
        polled=PolledPeaks.restored(entry["polled"]),
        counted=entry["counted"],
        l1_peak_missed=entry["l1_peak_missed"],
        one_layout=entry["one_layout"],
        largest={MemoryKind(int(kind)): size for kind, size in entry["largest"].items()},
    )


def _process(index: int, entry: Mapping[str, Any], strings: Mapping[int, str]) -> ProcessRecord:
    probe = entry["probe"]
    gaps = ProbeGaps(
        tracking=probe["tracking"],
        call_sites=probe["call_sites"],
        unseen=probe["unseen"],
        missed=probe["missed"],
        uncounted=set(probe["uncounted"]),
        table_full=probe["table_full"],
        unlisted=probe["unlisted"],
        alive={key: tuple(counts) for key, counts in probe["alive"].items()},
        lower_bound=set(probe["lower_bound"]),
    )
    return ProcessRecord(
        index,
        ProcessFacts(*entry["facts"]),
        set(entry["sources"]),
        connections=entry["connections"],
        container_pid=entry["container_pid"],
        dropped=entry["dropped"],
        overflow=entry["overflow"],
        gaps=entry["gaps"],
        devices={int(number): unique_id for number, unique_id in entry["devices"].items()},
        strings=dict(strings),
        messages={int(time): text for time, text in entry["messages"].items()},
        missing=tuple(entry["missing"]),
        probe=gaps,
        binaries=dict(entry["binaries"]),
    )


def _take_samples(books: Books, document: Mapping[str, Mapping[str, Any]]) -> None:
    for key, one in document.get("counted", {}).items():
        facts = ProcessFacts(*one["facts"])
        process = ProcessRecord(int(key), facts, container_pid=one["container_pid"])
        books.counters.samples.restore(tuple(one["identity"]), process)
    remarks = [Remark(*fields) for fields in document["books"]["remarks"]]
    readings = []
    for entry in document.get("samples", {}).values():
        record = next(one for one in books.devices if one.unique_id == entry["unique_id"])
        record.sample = _device_sample(entry)
        readings.append((record, record.sample))
    books.counters.samples.take(readings, remarks, 0)
    books.counters.samples.ghosts = ()  # they are among those left behind


def _device_sample(entry: Mapping[str, Any]) -> DeviceSample:
    plain = {name: entry[name] for name in _PLAIN}
    return DeviceSample(
        **{
            **plain,
            "declaration": entry["declaration"] and _declaration(entry["declaration"]),
            "stored": Amounts(*entry["stored"]),
            "chips": entry["chips"] and Amounts(*entry["chips"]),
            "processes": tuple(
                ProcessSample(pid, start, name, Owner(owner), Amounts(*counters), *rest)
                for pid, start, name, owner, counters, *rest in entry["processes"]
            ),
            "remarks": tuple(Remark(*fields) for fields in entry["remarks"]),
        }
    )


def _left_behind(entry: Mapping[str, Any]) -> LeftBehind:
    held = {key: Amounts(*amounts) for key, amounts in entry["devices"].items()}
    return LeftBehind(**{**entry, "devices": held})
