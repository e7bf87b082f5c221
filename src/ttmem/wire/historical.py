"""The historical messages: fixed records without version, magic or length, in four sizes.

All sizes share a head of 40 bytes, little-endian:

====== ==== ================================================
offset size field
====== ==== ================================================
0      u8   type, 1 to 12 (then 3 bytes of padding)
4      i32  device_id
8      u64  size
16     u8   buffer_type, or kernel type (then 3 bytes of padding)
20     i32  process_id
24     u64  buffer_id
32     u64  timestamp
====== ==== ================================================

The tails differ (`TAILS`); only answers fill them. Invariant: a record that a client sends has a
zero tail, which is what tells the sizes apart. The size is found from structure, once per connection:

- a record starts with a head whose type is 1 to 12 and whose padding is zero; a client's tail is zero. The size is the
  smallest of 72, 112, 128 and 144 at which the next head stands;
- a lone record has the length that arrived once the socket was quiet for `patience` seconds. That is provisional: the
  head is the same in all sizes, so the report counts at once, and only the step to the next record is settled later.

If the sizes change in mid-stream, the same structure shows it, in both directions; what cannot be a record ends the
connection. Nothing is ever guessed from bytes that do not look like a head.

The 32-byte messages of `instrumented_helpers.hpp` are named, counted and skipped. Their connection stays open: the
application that sends them does not expect it to close, and would die of SIGPIPE.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from ttmem._native import decode_records
from ttmem.fast_dataclasses import dataclass
from ttmem.procfs import LARGEST_PID

HEAD = Struct("<B3xiQB3xiQQ")
SIZES = (72, 112, 128, 144)

_FOUR = ("dram_allocated", "l1_allocated", "l1_small_allocated", "trace_allocated")
_TOTALS = ("total_dram_size", "total_l1_size")
_INFO = (
    "arch_type",
    "num_dram_channels",
    "dram_size_per_channel",
    "l1_size_per_core",
    "is_available",
    "num_devices",
)
_RING = ("ringbuffer_total_size", "ringbuffer_used_bytes", "ringbuffer_num_programs")
_SIX = (*_FOUR, "cb_allocated", "kernel_allocated")

TAILS: dict[int, tuple[Struct, tuple[str, ...]]] = {
    72: (Struct("<4Q"), _FOUR),
    112: (Struct("<6Q6I"), (*_FOUR, *_TOTALS, *_INFO)),
    128: (Struct("<8Q6I"), (*_SIX, *_TOTALS, *_INFO)),
    144: (Struct("<8Q9I4x"), (*_SIX, *_TOTALS, *_INFO, *_RING)),
}


class Message(IntEnum):
    """The types of messages that are no events; those of events are in `ttmem.events.Op`."""

    QUERY = 3
    RESPONSE = 4
    DUMP_REMAINING = 5
    DEVICE_INFO_QUERY = 6
    DEVICE_INFO_RESPONSE = 7
    DUMP_KERNELS = 12


class Stop(IntEnum):
    """Why the native decoder stopped."""

    END = 0
    ATTENTION = 1
    OTHER_PID = 2


QUESTIONS = frozenset(
    {Message.QUERY, Message.DUMP_REMAINING, Message.DEVICE_INFO_QUERY, Message.DUMP_KERNELS}
)
ANSWERS = frozenset({Message.RESPONSE, Message.DEVICE_INFO_RESPONSE})
ARCH_NUMBERS = {"grayskull": 1, "wormhole": 2, "blackhole": 3, "quasar": 4}


class Head(NamedTuple):
    """The common head of a record."""

    type: int
    device: int = 0
    size: int = 0
    buffer_type: int = 0
    pid: int = 0
    id: int = 0
    timestamp: int = 0


def encode(record_size: int, head: Head, tail: dict[str, int] | None = None) -> bytes:
    """A record of that size. Fields that it lacks are left out; values are cut to what fits."""
    layout, names = TAILS[record_size]
    given = tail or {}
    try:
        return HEAD.pack(*head) + layout.pack(*[given.get(name, 0) for name in names])
    except error:  # some value does not fit
        widest = [1 << (64 if name in (*_SIX, *_TOTALS) else 32) for name in names]
        cut = [min(given.get(name, 0), end - 1) for name, end in zip(names, widest, strict=True)]
        return HEAD.pack(*head) + layout.pack(*cut)


def decode_head(data: bytes, offset: int = 0) -> Head:
    return Head._make(HEAD.unpack_from(data, offset))


QUIET = 0.03
# If the first bytes to arrive are exactly one record: clients send each with one call.
SHORT_QUIET = 0.001
HEAD_CHECK = 24  # type, device, size, buffer type and pid: enough to know a head
MAX_UNKNOWN = 10
_HELPER = Struct("<B3xiQQiI")  # type 8 to 11, device, size, id, pid, zero
_HELPER_TEXT = (
    f"{_HELPER.size}-byte messages of instrumented_helpers.hpp are skipped: they name circular buffers by index"
    " and guess the size of kernels; report with the allocation client or ttmem.client instead"
)


@dataclass(frozen=True, slots=True)
class HistoricalQuery:
    """A record that wants an answer of its own size."""

    head: Head
    record_size: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to log; `records` of them are lost."""

    text: str
    records: int = 1
    ends: bool = False  # the stream cannot be read any further


Item = bytes | HistoricalQuery | Problem  # bytes: event records, ready for the ledger


class RecordStream:
    """Turns bytes into items. `pid` is the sender's, and messages that name another pid are still the sender's."""

    def __init__(self, pid: int = 0) -> None:
        self.record_size: int | None = None
        self._pid = pid
        self._rest = b""
        self._unknown = 0
        self._helper = False
        self._broken = False
        self._fed = 0  # how often

    @property
    def patience(self) -> float:
        """Seconds of silence after which `quiet` should be called."""
        alone = self._fed == 1 and len(self._rest) in SIZES
        return SHORT_QUIET if alone else QUIET

    @property
    def waiting(self) -> bool:
        """Whether bytes wait for more, or for silence, to be understood."""
        return bool(self._rest) and not self._broken

    def feed(self, data: bytes) -> list[Item]:
        """Takes what arrived."""
        self._fed += 1
        return self._read(self._rest + data if self._rest else data, quiet=False)

    def quiet(self) -> list[Item]:
        """Nothing arrived for `patience` seconds: what is here is complete, if it can be."""
        return self._read(self._rest, quiet=True)

    def end(self) -> list[Item]:
        """The peer has closed."""
        items = self.quiet()
        if self._rest and any(self._rest) and not self._broken:
            items.append(
                Problem(f"the connection ended inside a record: {len(self._rest)} bytes dropped")
            )
        self._rest = b""
        return items

    def _read(self, data: bytes, quiet: bool) -> list[Item]:
        items: list[Item] = []
        if self._broken or not data:
            return items
        if self.record_size is None and self._is_helper(data, quiet):
            self._rest = self._skip_helpers(data, items)
            return items
        if self.record_size is None and not self._find_size(data, quiet, items):
            self._rest = data
            return items
        self._rest = data[self._records(data, quiet, items) :]
        return items

    def _is_helper(self, data: bytes, quiet: bool) -> bool:
        """Two such messages cannot be the beginning of a record.

        One can, if it has its sender's pid where records have it.
        """
        if not self._helper and len(data) >= _HELPER.size:
            first, second = _helper_pid(data, 0), _helper_pid(data, _HELPER.size)
            sender = _head(data, 0).pid
            named = (first == self._pid and sender != self._pid) or sender == 0
            alone = quiet and len(data) == _HELPER.size and named
            self._helper = first is not None and (first == second or alone)
        return self._helper

    def _skip_helpers(self, data: bytes, items: list[Item]) -> bytes:
        count = 0
        while _helper_pid(data, count * _HELPER.size) is not None:
            count += 1
        if count:
            items.append(Problem(_HELPER_TEXT, count))
        rest = data[count * _HELPER.size :]
        if len(rest) >= _HELPER.size:
            self._break(items, f"these bytes are not messages of the helpers: {rest[:16].hex(' ')}")
        return rest

    def _find_size(self, data: bytes, quiet: bool, items: list[Item]) -> bool:
        if not 1 <= data[0] <= 12 or (len(data) >= HEAD_CHECK and not _is_head(data, 0)):
            self._break(items, f"these bytes are not allocation messages: {data[:16].hex(' ')}")
            return False
        for size in SIZES:
            if len(data) >= size + HEAD_CHECK:
                if _is_head(data, size) or _is_unknown_head(data, size):
                    self.record_size = size
                    return True
            elif len(data) <= size or 1 <= data[size] <= 12:
                break  # not decidable yet
        else:
            self._break(
                items, "no record size fits: there is no message where the second one should be"
            )
            return False
        if quiet and len(data) in SIZES:
            self.record_size = len(data)
            return True
        return False

    def _records(self, data: bytes, quiet: bool, items: list[Item]) -> int:
        at = 0
        while self.record_size is not None and at + self.record_size <= len(data):
            events, used, stop = decode_records(data, at, self.record_size, self._pid)
            at += used
            if events:
                items.append(events)
                self._unknown = 0
            if stop == Stop.END:
                break
            if stop == Stop.OTHER_PID:
                items.append(self._other_pid(decode_head(data, at)))
                continue
            step = self._attend(data, at, quiet, items)
            if step is None or self._broken:
                return at
            at += step
        if self.record_size is not None and data[at : at + 1] == b"\0":
            # Shorter than a record, and not a head: the rest of a longer record before it.
            at += self._lengthen(data, at, quiet, items) or 0
        return at

    def _attend(self, data: bytes, at: int, quiet: bool, items: list[Item]) -> int | None:
        """A record that is not a plain report: how far to step, or None to wait for more bytes."""
        assert self.record_size is not None
        size = self.record_size
        if not _is_head(data, at):
            if _is_unknown_head(data, at) and not any(data[at + HEAD.size : at + size]):
                return self._unknown_type(data[at], items)
            return self._lengthen(data, at, quiet, items)
        for shorter in SIZES:
            if shorter < size and _is_head(data, at + shorter):
                items.append(
                    Problem(f"records changed from {size} to {shorter} bytes in mid-stream", 0)
                )
                self.record_size = shorter
                return 0
        self._unknown = 0
        head = decode_head(data, at)
        if head.type in QUESTIONS:
            items.append(HistoricalQuery(head, size))
        elif head.type in ANSWERS:
            items.append(
                Problem(f"a client sent {Message(head.type).name}, which only servers send")
            )
        else:  # a plain report with something in its padding or tail, which this protocol does not define
            clean = HEAD.pack(*head) + bytes(SIZES[0] - HEAD.size)
            items.append(decode_records(clean, 0, SIZES[0], 0)[0])
        return size

    def _lengthen(self, data: bytes, at: int, quiet: bool, items: list[Item]) -> int | None:
        """Zeros where a head should be: the record before was longer than assumed."""
        assert self.record_size is not None
        for longer in SIZES:
            gap = longer - self.record_size
            if gap <= 0 or any(data[at : at + gap]):
                continue
            whole = len(data) - at == gap and quiet
            if whole or (len(data) >= at + gap + HEAD_CHECK and _is_head(data, at + gap)):
                items.append(Problem(f"records are {longer} bytes long, not {self.record_size}", 0))
                self.record_size = longer
                return gap
        if len(data) - at < SIZES[-1] - self.record_size + HEAD_CHECK and not any(
            data[at : at + 32]
        ):
            return None
        self._break(
            items,
            f"there is no message where the next one should be: {data[at : at + 16].hex(' ')}",
        )
        return None

    def _unknown_type(self, kind: int, items: list[Item]) -> int:
        self._unknown += 1
        if self._unknown > MAX_UNKNOWN:
            self._break(items, f"more than {MAX_UNKNOWN} messages of unknown types in a row")
        items.append(Problem(f"message type {kind} is unknown (known are 1 to 12)"))
        assert self.record_size is not None
        return self.record_size

    def _other_pid(self, head: Head) -> Problem:
        text = f"messages name pid {head.pid}, the sender is pid {self._pid}; they count for the sender"
        self._pid = 0
        return Problem(text, 0)

    def _break(self, items: list[Item], text: str) -> None:
        self._broken = True
        items.append(Problem(text, ends=True))


def _is_head(data: bytes, at: int) -> bool:
    if not 1 <= data[at] <= 12:
        return False
    if not any(data[at + 1 : at + 4]) and not any(data[at + 17 : at + 20]):
        return True
    # A client that leaves its padding uninitialised is recognised by plausible values.
    head = _head(data, at)
    return head.buffer_type <= 4 and -1 <= head.device < 1024 and 0 < head.pid <= LARGEST_PID


def _helper_pid(data: bytes, at: int) -> int | None:
    """The pid in a message of the helpers; None if there is none."""
    if len(data) < at + _HELPER.size or any(data[at + 1 : at + 4]):
        return None
    kind, device, _, _, pid, zero = _HELPER.unpack_from(data, at)
    possible = 8 <= kind <= 11 and -1 <= device < 1024 and 0 < pid <= LARGEST_PID and zero == 0
    return pid if possible else None


def _is_unknown_head(data: bytes, at: int) -> bool:
    if data[at] <= 12 or any(data[at + 1 : at + 4]) or any(data[at + 17 : at + 20]):
        return False
    head = _head(data, at)
    return -1 <= head.device < 1024 and 0 <= head.pid <= LARGEST_PID


def _head(data: bytes, at: int) -> Head:
    """The head at an offset, even if its last fields have not arrived."""
    return decode_head(data[at : at + HEAD.size].ljust(HEAD.size, b"\0"))
