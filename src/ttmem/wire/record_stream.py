"""One connection's historical records: which size they have, and what they say.

The wire has no version, so the size is found from structure, once per connection:

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

from struct import Struct

from ttmem._native import decode_records
from ttmem.fast_dataclasses import dataclass
from ttmem.wire.historical import ANSWERS, HEAD, QUESTIONS, SIZES, Head, Message, decode_head

QUIET = 0.03
SHORT_QUIET = 0.001  # where the first bytes of all are as many as a record has: clients send each with one call
HEAD_CHECK = 24  # type, device, size, buffer type and pid: enough to know a head
MAX_UNKNOWN = 10
_MAX_PID = 1 << 22
_HELPER = Struct("<B3xiQQiI")  # type 8 to 11, device, size, id, pid, zero
_HELPER_TEXT = (
    f"{_HELPER.size}-byte messages of instrumented_helpers.hpp are skipped: they name circular buffers by index"
    " and guess the size of kernels; report with the allocation client or ttmem.client instead"
)
_END, _ATTENTION, _OTHER_PID = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Reports:
    """Event records, ready for the ledger."""

    events: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A record that wants an answer, in the size it was asked."""

    head: Head
    record_size: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to log; `records` of them are lost."""

    text: str
    records: int = 1


@dataclass(frozen=True, slots=True)
class Broken:
    """The stream cannot be read any further."""

    text: str


Item = Reports | Question | Problem | Broken


class RecordStream:
    """Feed it bytes, get items. `pid` is the sender's; messages that name another one are the sender's all the same."""

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
        """True while bytes wait for more, or for quiet, to be understood."""
        return bool(self._rest) and not self._broken

    def feed(self, data: bytes) -> list[Item]:
        """Takes what arrived."""
        self._fed += 1
        return self._read(self._rest + data if self._rest else data, quiet=False)

    def quiet(self) -> list[Item]:
        """Nothing came for `patience` seconds: what is here is whole, if it can be."""
        return self._read(self._rest, quiet=True)

    def end(self) -> list[Item]:
        """The peer closed."""
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
        """Two such messages cannot be the beginning of a record; one can, if it names its sender where records do."""
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
            self._break(items, f"these bytes are no messages of the helpers: {rest[:16].hex(' ')}")
        return rest

    def _find_size(self, data: bytes, quiet: bool, items: list[Item]) -> bool:
        if not 1 <= data[0] <= 12 or (len(data) >= HEAD_CHECK and not _is_head(data, 0)):
            self._break(items, f"these bytes are no allocation messages: {data[:16].hex(' ')}")
            return False
        for size in SIZES:
            if len(data) >= size + HEAD_CHECK:
                if _is_head(data, size) or _is_unknown_head(data, size):
                    self.record_size = size
                    return True
            elif len(data) <= size or 1 <= data[size] <= 12:
                break  # not decidable yet
        else:
            self._break(items, "no record size fits: no message stands where the second one should")
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
                items.append(Reports(events))
                self._unknown = 0
            if stop == _END:
                break
            if stop == _OTHER_PID:
                items.append(self._other_pid(decode_head(data, at)))
                continue
            step = self._attend(data, at, quiet, items)
            if step is None or self._broken:
                return at
            at += step
        if self.record_size is not None and data[at : at + 1] == b"\0":
            # Shorter than a record, and no head: the rest of a longer one before it.
            at += self._lengthen(data, at, quiet, items) or 0
        return at

    def _attend(self, data: bytes, at: int, quiet: bool, items: list[Item]) -> int | None:
        """A record that is no plain report: how far to step, or None to wait for more bytes."""
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
            items.append(Question(head, size))
        elif head.type in ANSWERS:
            items.append(
                Problem(f"a client sent {Message(head.type).name}, which only servers send")
            )
        else:  # a plain report with something in its padding or tail, which this wire does not define
            clean = HEAD.pack(*head) + bytes(SIZES[0] - HEAD.size)
            items.append(Reports(decode_records(clean, 0, SIZES[0], 0)[0]))
        return size

    def _lengthen(self, data: bytes, at: int, quiet: bool, items: list[Item]) -> int | None:
        """Zeros where a head should be: the record before was longer than thought."""
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
            items, f"no message stands where the next one should: {data[at : at + 16].hex(' ')}"
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
        items.append(Broken(text))


def _is_head(data: bytes, at: int) -> bool:
    if not 1 <= data[at] <= 12:
        return False
    if not any(data[at + 1 : at + 4]) and not any(data[at + 17 : at + 20]):
        return True
    # A client that leaves its padding uninitialised is known by plausible values.
    head = _head(data, at)
    return head.buffer_type <= 4 and -1 <= head.device < 1024 and 0 < head.pid <= _MAX_PID


def _helper_pid(data: bytes, at: int) -> int | None:
    """The pid in a message of the helpers; None if none stands there."""
    if len(data) < at + _HELPER.size or any(data[at + 1 : at + 4]):
        return None
    kind, device, _, _, pid, zero = _HELPER.unpack_from(data, at)
    possible = 8 <= kind <= 11 and -1 <= device < 1024 and 0 < pid <= _MAX_PID and zero == 0
    return pid if possible else None


def _is_unknown_head(data: bytes, at: int) -> bool:
    if data[at] <= 12 or any(data[at + 1 : at + 4]) or any(data[at + 17 : at + 20]):
        return False
    head = _head(data, at)
    return -1 <= head.device < 1024 and 0 <= head.pid <= _MAX_PID


def _head(data: bytes, at: int) -> Head:
    """The head at an offset, even if its last fields have not arrived."""
    return decode_head(data[at : at + HEAD.size].ljust(HEAD.size, b"\0"))
