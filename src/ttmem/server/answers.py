"""What the server answers, in both protocols, and the dumps that it prints on request."""

from __future__ import annotations

import os
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ttmem.clock import now_ns
from ttmem.events import DeviceDeclaration, KernelType, MemoryKind
from ttmem.fast_dataclasses import NamedTuple
from ttmem.ledger import Books
from ttmem.ledger.books import DeviceUse
from ttmem.procfs import is_alive, process_facts, user_title
from ttmem.server.log import Output
from ttmem.snapshots import DETAILS, Question, to_json
from ttmem.snapshots.native_rows import column_counts
from ttmem.sources.socket.peer import Peer
from ttmem.version import __version__
from ttmem.wire.frames import answer_frame
from ttmem.wire.historical import ARCH_NUMBERS, Head, Message, encode
from ttmem.wire.rows import BufferRow, CircularBufferRow, KernelRow, flat_rows
from ttmem.wire.tokens import Tokens

DUMP_PERIOD = 1.0  # seconds between two dumps of one kind for one user
MAX_DUMPERS = 256
MAX_ADDRESS = 300  # characters
PAGE_PATIENCE = 35.0  # seconds; a page registers every ten
# Rows of each list in an answer to another user. The loop needs 0.4 s for 500,000 rows, 0.05 s to find the largest.
MAX_ROWS = 50_000
LOOKED_AT = 1000  # entries that a dump chooses from, the largest of all; its sums include all
LISTED = 10  # buffers of one kind on one device
LISTED_KERNELS = 40  # on one device
_MB = 1 << 20
DeviceKind = tuple[int, str]  # device index, kind of memory


class WebPage(NamedTuple):
    """Where pages are, what makes their tokens, and which process serves them."""

    address: str
    tokens: Tokens
    pid: int  # 0: it has none here
    started_ns: int | None
    registered: float

    @property
    def has_ended(self) -> bool:
        """Whether anybody may listen at its address by now."""
        late = time.monotonic() > self.registered + PAGE_PATIENCE
        return late or (self.pid > 0 and not is_alive(self.pid, self.started_ns))


class Answers:
    """Answers queries from the books. Dumps of the historical protocol are printed, as in the original."""

    def __init__(
        self,
        books: Books,
        socket_path: str,
        started_ns: int,
        output: Output,
        shm: str | None = None,
        info: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._books = books
        self._info = info
        self._output = output
        self._trusted = {0, os.geteuid()}
        self._page: WebPage | None = None
        # Time of the last one.
        self._dumped: OrderedDict[tuple[int, Message], float] = OrderedDict()
        self.host = {
            "ttmem": __version__,
            "server": {"pid": os.getpid(), "socket": socket_path, "started_ns": started_ns},
            "shared_memory": shm,
        }

    # -- the historical protocol -------------------------------------------------------------------------------

    def record(self, head: Head, record_size: int, uid: int) -> bytes | None:
        """The answer, in a record of the same size; None if there is none, as for a dump."""
        if head.type in (Message.DUMP_REMAINING, Message.DUMP_KERNELS):
            self._dump(Message(head.type), uid)
            return None
        kind = Message.RESPONSE if head.type == Message.QUERY else Message.DEVICE_INFO_RESPONSE
        declared, use = self._books.device(head.device)
        tail = {"num_devices": self._books.device_count()}
        tail |= {} if declared is None else _hardware(declared)
        tail |= {} if use is None else _usage(use)
        # The original monitor shows the totals of an available device as they are, and assumes 12 GiB and 75 MiB for
        # others. So a device with unknown totals is not available: else the monitor would show '25.00 MB / 0.00 B'.
        sized = bool(tail.get("total_dram_size") and tail.get("total_l1_size"))
        tail["is_available"] = int(tail["num_devices"] > 0 if head.device == -1 else sized)
        return encode(record_size, Head(kind, head.device), tail)

    def _dump(self, kind: Message, uid: int) -> None:
        now = time.monotonic()
        if now - self._dumped.get((uid, kind), -DUMP_PERIOD) < DUMP_PERIOD:
            self._books.omissions.limit(
                user_title(uid), "a dump was refused: one per second is allowed"
            )
            return
        self._dumped[uid, kind] = now
        if len(self._dumped) > MAX_DUMPERS:
            self._dumped.popitem(last=False)
        make = remaining_text if kind is Message.DUMP_REMAINING else kernels_text
        self._output.write(f"{make(self._books)}\n".encode())

    # -- ttmem's own protocol ----------------------------------------------------------------------------------

    def query(self, document: dict[str, Any], peer: Peer, now: int) -> list[bytes]:
        """An ANSWER frame in pieces; if the query is invalid, the answer says why."""
        what = document.get("what")
        if what == "snapshot":
            return self._snapshot(document, peer.uid, now)
        if what == "reset_peak":
            unique_id = document.get("unique_id")
            if not self._books.reset_peak(unique_id):
                return answer_frame({"error": f"there is no device {unique_id!r:.100}"})
            return answer_frame({"done": True})
        if what == "web_register":
            return self._web_register(document, peer)
        if what == "web_link":
            return self._web_link(peer.uid)
        return answer_frame(
            {
                "error": f"there is no query {what!r:.60}; the queries are snapshot, reset_peak and web_link"
            }
        )

    def _web_register(self, document: dict[str, Any], peer: Peer) -> list[bytes]:
        """From the process that serves HTTP: its address, and the key of its tokens."""
        address, key = document.get("address"), document.get("key")
        if peer.uid not in self._trusted:
            return answer_frame({"error": "only root and the server's user may serve its pages"})
        try:
            if not isinstance(address, str) or len(address) > MAX_ADDRESS or len(key or "") != 64:
                raise ValueError
            tokens = Tokens(bytes.fromhex(str(key)))
        except ValueError:
            return answer_frame({"error": "an address and a key of 32 bytes are expected"})
        before = self._page
        if before is None or before.address != address:
            # Links are those of the page that was there first.
            if before is not None and not before.has_ended:
                return answer_frame({"done": True})
            self._info(f"the page is at {address}; `ttmem web --link` prints a link for each user")
        started_ns = process_facts(peer.pid, peer.uid).start_time_ns if peer.pid > 0 else None
        self._page = WebPage(address, tokens, peer.pid, started_ns, time.monotonic())
        return answer_frame({"done": True})

    def _web_link(self, uid: int) -> list[bytes]:
        """A link for the user who asks; it shows what that user may see."""
        page = self._page
        if page is None:
            return answer_frame({"error": "there is no page; start the server with --http"})
        if page.has_ended:
            return answer_frame({"error": f"the page at {page.address} has ended"})
        return answer_frame({"link": f"{page.address}/#token={page.tokens.issue(uid)}"})

    def _snapshot(self, document: dict[str, Any], uid: int, now: int) -> list[bytes]:
        wanted = document.get("detail") or []
        if not isinstance(wanted, list) or any(name not in DETAILS for name in wanted):
            return answer_frame({"error": f"details are a list of {', '.join(DETAILS)}"})
        device, limit = document.get("device"), document.get("limit")
        if problem := _narrowing_problem(device, limit):
            return answer_frame({"error": problem})
        if wanted and uid not in self._trusted and self._books.native.live() > MAX_ROWS:
            if limit is None:
                cut = f"an answer has only the {MAX_ROWS:,} largest entries of each list"
                self._books.omissions.limit(user_title(uid), cut)
            limit = min(limit or MAX_ROWS, MAX_ROWS)
        details = self._books.details(Question(tuple(wanted), device, limit))
        snapshot = details.add(self._books.snapshot(now, self.host))
        attachments = details.attachments()
        answer: dict[str, Any] = {"snapshot": to_json(snapshot)}
        if attachments:
            answer["names"] = details.names_in(attachments).to_json()
            answer["columns"] = column_counts(attachments)
        return answer_frame(answer, attachments)


def _known(fields: dict[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in fields.items() if value is not None}


def _hardware(declared: DeviceDeclaration) -> dict[str, int]:
    dram = declared.banks(MemoryKind.DRAM)
    return _known(
        {
            "total_dram_size": dram.capacity,
            "total_l1_size": declared.l1_total or declared.l1_capacity,
            "arch_type": ARCH_NUMBERS.get(declared.arch or ""),
            "num_dram_channels": dram.number,
            "dram_size_per_channel": dram.size,
            "l1_size_per_core": declared.l1_per_core,
            "ringbuffer_total_size": declared.ring_capacity,
        }
    )


def _usage(use: DeviceUse) -> dict[str, int]:
    return _known(
        {
            "dram_allocated": use.held[MemoryKind.DRAM],
            "l1_allocated": use.held[MemoryKind.L1],
            "l1_small_allocated": use.held[MemoryKind.L1_SMALL],
            "trace_allocated": use.held[MemoryKind.TRACE],
            "cb_allocated": use.cb_used,
            "kernel_allocated": use.footprint,
            "total_l1_size": use.l1_total,
            "ringbuffer_total_size": use.ring_capacity,
            "ringbuffer_used_bytes": use.ring_occupied,
            "ringbuffer_num_programs": use.ring_programs,
        }
    )


def _narrowing_problem(device: object, limit: object) -> str | None:
    if device is not None and not isinstance(device, str):
        return f"device is a unique id as a string, not {device!r:.60}"
    if limit is not None and (type(limit) is not int or limit < 1):
        return f"limit is a whole number of rows, 1 or more, not {limit!r:.60}"
    return None


# -- dumps; their 'MB' and 'KB' are binary -------------------------------------------------------------------------


def remaining_text(books: Books) -> str:
    """DUMP_REMAINING: live buffers by device and kind, the largest of each, worded as the original has it."""
    counts, sums = _held(books)
    entries: dict[DeviceKind, list[tuple[int, str]]] = defaultdict(list)
    for row in flat_rows(BufferRow, books.native.buffers(LOOKED_AT)):
        owner = f"(PID {books.processes[row.process].pid}, ref_count={row.references})"
        line = f"Buffer {row.id:#x}: {row.size / 1024:g} KB {owner}"
        entries[row.device, MemoryKind(row.kind).name].append((row.size, line))
    for cb in flat_rows(CircularBufferRow, books.native.circular_buffers(LOOKED_AT)):
        owner = f"(PID {books.processes[cb.process].pid}, ref_count={cb.references})"
        line = f"CB {cb.address:#x}: {cb.size / 1024:g} KB {owner}"
        entries[cb.device, "CB"].append((cb.size * cb.references, line))
    lines = _title("REMAINING ALLOCATED BUFFERS")
    if not counts:
        return "\n".join([*lines, "✓ No buffers remaining"])
    lines.append(f"Total remaining buffers: {counts.total()}")
    for device in sorted({device for device, _ in counts}):
        lines.append(f"Device {books.devices[device].declaration.logical_id}:")
        for kind in (*MemoryKind.__members__, "CB"):
            if count := counts[device, kind]:
                size = sums[device, kind] / _MB
                lines.append(f"  {kind}: {count} buffers, {size:g} MB total")
                found = [text for _, text in sorted(entries[device, kind], reverse=True)]
                lines += _first(found, LISTED, count, "    ")
    return "\n".join([*lines, f"Total: {sums.total() / _MB:g} MB"])


def _held(books: Books) -> tuple[Counter[DeviceKind], Counter[DeviceKind]]:
    """Number and bytes of the buffers of each kind on each device."""
    counts: Counter[DeviceKind] = Counter()
    sums: Counter[DeviceKind] = Counter()
    for row in books.event_rows():
        amounts = [(kind.name, row.counts[kind], row.requested[kind]) for kind in MemoryKind]
        for kind, count, size in (*amounts, ("CB", row.cb_count, row.cb_demand)):
            if count:
                counts[row.device, kind] += count
                sums[row.device, kind] += size
    return counts, sums


def kernels_text(books: Books) -> str:
    """DUMP_KERNELS: live kernels by device, the largest of each."""
    counts: Counter[int] = Counter()
    for row in books.event_rows():
        counts[row.device] += sum(row.kernels)
    by_device: dict[int, list[KernelRow]] = defaultdict(list)
    for kernel in flat_rows(KernelRow, books.native.kernels(LOOKED_AT)):
        by_device[kernel.device].append(kernel)
    lines = _title("LOADED KERNELS")
    if not counts.total():
        return "\n".join([*lines, "✓ No kernels loaded"])
    now = now_ns()
    for device in sorted(+counts):
        lines.append(
            f"Device {books.devices[device].declaration.logical_id}: {counts[device]} kernels"
        )
        rows = sorted(by_device[device], key=lambda row: row.footprint, reverse=True)
        found = (
            f"{KernelType(row.type).name.title()} kernel {row.id:#x}: {row.footprint / 1024:g} KB"
            f" (PID {books.processes[row.process].pid}, age {max(0, now - row.time) / 1e9:.1f} s)"
            for row in rows
        )
        lines += _first(found, LISTED_KERNELS, counts[device], "  ")
    return "\n".join(lines)


def _first(entries: Iterable[str], most: int, count: int, indent: str) -> list[str]:
    shown = [f"{indent}- {text}" for _, text in zip(range(most), entries, strict=False)]
    more = count - len(shown)
    return [*shown, f"{indent}... {more} more"] if more > 0 else shown


def _title(text: str) -> list[str]:
    rule = "═" * (len(text) + 4)
    return [f"╔{rule}╗", f"║  {text}  ║", f"╚{rule}╝"]
