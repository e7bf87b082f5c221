"""Recordings over HTTP: the numbers of `ttmem ps FILE --at`, and uploads that cannot do harm."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import operator
import os
import resource
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.own_process import finish, printed
from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.sources.region_writer import N300_LOCAL, Written, add_n300
from tests.web.site import WebSite, website
from tests.web.test_siege import resident
from ttmem.client import AllocationClient, MemoryKind
from ttmem.commands import main
from ttmem.errors import TtmemError
from ttmem.feeds import Feed, LocalFeed, PastFeed, ServerFeed
from ttmem.feeds.recorded_telemetry import sample_of
from ttmem.recording import Recording
from ttmem.recording.files import FileSink
from ttmem.recording.format import HEADER_SIZE, ChunkType, Header, encode, encode_long
from ttmem.recording.recorder import described
from ttmem.sources.telemetry.source import TelemetrySource
from ttmem.wire.tokens import Tokens

pytest.importorskip("uvicorn", reason="uvicorn is not installed")
from starlette.exceptions import HTTPException

from ttmem.web.http import fair_thread, opened
from ttmem.web.http.app import Site
from ttmem.web.http.documents import CLOSED
from ttmem.web.http.live import Live
from ttmem.web.http.readings import Child, LimitReached, ReadLimits, Work, span
from ttmem.web.http.recordings import Recordings

GOLDEN = Path(__file__).parents[1] / "data" / "recordings" / "version-1.ttmem"

LIST = "/api/v1/recording"
FILE = f"{LIST}/file"
PAST = f"{LIST}/past"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recordings") / "cnn.ttmem"
    assert main(["simulate", "cnn", "--steps", "12", "--rate", "0", "-o", str(made)]) == 0
    return made


@pytest.fixture(scope="module")
def site(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    """`ttmem web FILE`, on a host where nothing else happens."""
    empty = tmp_path_factory.mktemp("shm")
    with website(str(file), "--shm", str(empty), "--max-upload", "1MiB") as running:
        yield running


def test_a_recording_shows_its_sensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sysfs, file = tmp_path / "sys", tmp_path / "sensors.ttmem"
    sysfs.mkdir()
    monkeypatch.setenv("TTMEM_SYSFS", str(sysfs))
    add_n300(sysfs)
    Written(number=N300_LOCAL, logical_id=0).write(tmp_path)
    with closing(LocalFeed(str(tmp_path))) as feed:
        recorder = feed.record(FileSink(str(file)), described())
        recorder.telemetry(sample_of(TelemetrySource().read()), feed.poll())
        recorder.close()

    with website(str(file), "--shm", str(sysfs)) as site:
        (shown,) = site.ask(f"{FILE}/snapshot").document["devices"]

    assert shown["telemetry"]["temperature_c"] == 51.3
    assert [shown] == printed("ps", str(file), "--telemetry")["devices"]


def uploads(site: WebSite) -> list[str]:
    found = site.ask(LIST).document["recordings"]
    return [entry["id"] for entry in found if entry["kind"] == "upload"]


@pytest.fixture
def uploaded(site: WebSite, file: Path) -> Iterator[str]:
    answer = site.ask(f"{LIST}?name=mine.ttmem", "POST", file.read_bytes())
    assert answer.status == 201, answer.body
    yield f"{LIST}/{answer.document['id']}"
    for upload in uploads(site):
        site.ask(f"{LIST}/{upload}", "DELETE")


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["start", "0.01s", "%232000", "peak:dram", "peak:l1_used", "end"])
def test_an_instant_is_that_of_ps(site: WebSite, file: Path, at: str) -> None:
    wanted = printed(
        "ps", str(file), "--json", "--at", at.replace("%23", "#"),
        "--detail", "programs,buffers,cores,events,history",
    )  # fmt: skip

    answer = site.ask(f"{FILE}/snapshot?at={at}&detail=programs,buffers,cores,events,history")

    assert answer.document == wanted


def test_filters_narrow_a_snapshot_as_they_narrow_that_of_ps(site: WebSite, file: Path) -> None:
    wanted = printed("ps", str(file), "--at", "peak:dram", "--device", "0")
    pid = wanted["processes"][0]["pid"]

    answer = site.ask(f"{FILE}/snapshot?at=peak:dram&device=0&pid={pid}")

    assert answer.document["devices"] == wanted["devices"]
    assert site.ask(f"{FILE}/snapshot?device=77").status == 404


def test_an_instant_has_one_name_by_position_and_one_by_time(site: WebSite) -> None:
    peak = site.ask(f"{FILE}/instant?at=peak:dram").document

    for at in (f"%23{peak['position']}", "peak:dram"):
        found = site.ask(f"{FILE}/snapshot?at={at}").document
        assert found["time_ns"] == peak["time_ns"]
    assert site.ask(f"{FILE}/instant?at=@{peak['time_ns']}").document["time_ns"] == peak["time_ns"]


def test_the_description_is_that_of_info(site: WebSite, file: Path) -> None:
    assert site.ask(FILE).document == printed("info", str(file))


def test_history_has_the_peaks_and_each_sample_is_a_state_that_existed(
    site: WebSite, file: Path
) -> None:
    history = site.ask(f"{FILE}/history?parts=50").document
    end = site.ask(f"{FILE}/snapshot").document

    with Recording(str(file)) as recording:
        totals = {
            (totals.device, totals.time_ns, *totals.amounts, totals.amounts.l1_used)
            for totals in recording.totals(0, recording.info().end)
        }
    for device in end["devices"]:
        columns = history["devices"][device["unique_id"]]
        assert max(columns["dram"]) == device["memory"]["dram"]["peak"]
        assert max(columns["l1_used"]) == device["l1_peak"]
        assert len(columns["time_ns"]) <= 150
        rows = {(device["unique_id"], *row) for row in zip(*columns.values(), strict=True)}
        assert rows <= totals


def test_markers_and_events_are_listed(site: WebSite) -> None:
    markers = site.ask(f"{FILE}/markers").document["markers"]
    events = site.ask(f"{FILE}/events?limit=3").document["events"]

    assert [marker["kind"] for marker in markers] == ["start", "end"]
    assert len(events) == 3
    position = markers[0]["position"]
    assert site.ask(f"{FILE}/snapshot?at=%23{position}").status == 200


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        (f"{FILE}/snapshot?at=tomorrow", 400, "is not an instant"),
        (f"{FILE}/snapshot?at=oom:9", 400, "not every source reports them"),
        (f"{FILE}/snapshot?detail=all", 400, "there is no detail"),
        (f"{FILE}/history?parts=0", 400, "parts is a whole number"),
        (f"{FILE}/events?detail=events", 400, "there is no parameter"),
        (f"{LIST}/nothing", 404, "no such recording"),
        (f"{LIST}/nothing/snapshot", 404, "no such recording"),
        (PAST, 503, "not kept"),
    ],
)
def test_a_wrong_question_is_told_why(site: WebSite, path: str, status: int, says: str) -> None:
    answer = site.ask(path)

    assert (answer.status, says in answer.document["error"]) == (status, True)


# -- uploads ---------------------------------------------------------------------------------------------------------


def test_an_upload_answers_like_the_file(site: WebSite, uploaded: str) -> None:
    for question in ("snapshot?at=peak:dram&detail=buffers", "history", "markers"):
        upload, file = (site.ask(f"{path}/{question}").document for path in (uploaded, FILE))
        assert unnamed(upload) == unnamed(file)


def descriptors(site: WebSite) -> dict[str, os.stat_result]:
    folder = Path(f"/proc/{site.process.pid}/fd")
    found = {}
    for path in folder.iterdir():
        try:
            found[os.readlink(path)] = path.stat()
        except OSError:
            continue
    return found


def test_an_upload_has_no_name_and_is_gone_when_it_is_closed(site: WebSite, uploaded: str) -> None:
    kept = [(name, at) for name, at in descriptors(site).items() if name.endswith("(deleted)")]

    assert site.ask(uploaded, "DELETE").status == 204
    assert site.ask(uploaded).status == 404
    assert site.ask(uploaded, "DELETE").status == 404
    ((name, about),) = kept
    assert stat.S_IMODE(about.st_mode) == 0o600
    wait_until(lambda: name not in descriptors(site))


def test_only_uploads_can_be_closed_and_nothing_is_changed_by_a_get(site: WebSite) -> None:
    assert site.ask(FILE, "DELETE").status == 403
    assert site.ask(PAST, "DELETE").status == 403
    assert site.ask(f"{FILE}/snapshot", "DELETE").status == 405
    assert site.ask(f"{FILE}/snapshot", "POST", b"x").status == 405
    assert uploads(site) == []


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"\xf7TTM" + bytes(200), os.urandom(1000)], ids=range(4)
)
def test_what_is_no_recording_is_refused_and_not_kept(site: WebSite, body: bytes) -> None:
    answer = site.ask(LIST, "POST", body)

    assert answer.status in (201, 400)
    if answer.status == 201:  # damaged from the first byte on, but a recording
        assert site.ask(f"{LIST}/{answer.document['id']}", "DELETE").status == 204
    assert uploads(site) == []


def test_a_damaged_recording_breaks_nothing(site: WebSite, file: Path) -> None:
    body = bytearray(file.read_bytes())
    for at in range(300, len(body), 997):
        body[at] ^= 0x5A
    answer = site.ask(LIST, "POST", bytes(body))
    assert answer.status == 201

    damaged = f"{LIST}/{answer.document['id']}"
    for question in ("", "/snapshot?at=peak:dram&detail=buffers", "/history", "/markers"):
        assert site.ask(f"{damaged}{question}").status in (200, 400)
    assert site.ask("/healthz").status == 200
    site.ask(damaged, "DELETE")


def test_a_small_file_that_expands_to_gigabytes_takes_neither_memory_nor_the_place_of_others(
    site: WebSite, file: Path
) -> None:
    # given: 100 KB, which become 20 million objects when they are read
    bomb = encode(ChunkType.FILE, b"{}", 7)
    payload = b"[" + b"{}," * 20_000_000 + b"{}]"
    bomb += b"".join(encode_long(ChunkType.ACCOUNTS, payload, 7, position=0, time=1))
    assert len(bomb) < 1 << 20
    before = resident(site.process.pid)
    path = f"{LIST}/{site.ask(LIST, 'POST', bomb).document['id']}"

    answer = site.ask(path)

    assert (answer.status, answer.document["markers"]) == (200, [])  # it is damage
    assert resident(site.process.pid) - before < 64 << 20
    assert site.ask(path, "DELETE").status == 204
    assert site.ask(LIST, "POST", file.read_bytes()).status == 201
    for name in uploads(site):
        site.ask(f"{LIST}/{name}", "DELETE")


def test_of_a_million_markers_the_answer_has_20_000_and_counts_the_rest(
    site: WebSite, file: Path
) -> None:
    marks = [[0, 1, "phase", 0, None, ""]] * 400_000
    marks[:1] = [[0, 1, "mark", 0, None, "mine"], marks[0]]
    parts = (json.dumps(marks[at : at + 100_000]).encode() for at in range(0, 400_001, 100_000))
    end = file.read_bytes()
    stream = Header.unpack(end[:HEADER_SIZE]).stream
    more = b"".join(
        chunk
        for payload in parts
        for chunk in encode_long(ChunkType.MARKS, payload, stream, position=0, time=1)
    )
    path = f"{LIST}/{site.ask(LIST, 'POST', end + more).document['id']}"
    before = resident(site.process.pid)

    answer = site.ask(f"{path}/markers").document
    described = site.ask(path).document

    assert resident(site.process.pid) - before < 32 << 20
    assert len(answer["markers"]) == len(described["markers"]) == 20_000
    assert answer["left_out"] == 400_000 + 1 + 2 - 20_000
    assert {"mark", "start", "end"} <= {marker["kind"] for marker in answer["markers"]}
    site.ask(path, "DELETE")


def readers(site: WebSite) -> list[int]:
    """Memory of the processes that read recordings."""
    children = Path(f"/proc/{site.process.pid}/task").glob("*/children")
    return [resident(int(pid)) for path in children for pid in path.read_text().split()]


def test_what_was_read_of_uploads_takes_little_memory(site: WebSite) -> None:
    # given: a small file with as many texts as are accepted, which take 100 MiB when they are read
    heavy = encode(ChunkType.FILE, b"{}", 7)
    account = json.dumps({"1": {"pid": 1, "user": "x", "command": "y"}}).encode()
    heavy += encode(ChunkType.ACCOUNTS, account, 7, first=0, last=1)
    for first in (1, 2):
        texts = {str(first * 10_000_000 + number): "ab" for number in range(450_000)}
        payload = json.dumps({"1": texts}, separators=(",", ":")).encode()
        heavy += b"".join(encode_long(ChunkType.STRINGS, payload, 7, position=0, time=1))
    path = f"{LIST}/{site.ask(LIST, 'POST', heavy).document['id']}"
    assert site.ask(path).status == 200

    left = readers(site)

    assert site.ask(path, "DELETE").status == 204
    assert max(left) < opened.IDLE_BYTES


def test_only_so_many_processes_wait_for_questions(site: WebSite, file: Path) -> None:
    before = len(readers(site))
    for _ in range(opened.MOST_IDLE + 3):
        assert site.ask(LIST, "POST", file.read_bytes()).status == 201

    assert len(readers(site)) <= before + opened.MOST_IDLE
    for name in uploads(site):
        assert site.ask(f"{LIST}/{name}/markers").status == 200
        site.ask(f"{LIST}/{name}", "DELETE")
    wait_until(lambda: len(readers(site)) <= before)


def sent(site: WebSite, head: str, body: bytes) -> bytes:
    """The status of a request whose body is written by hand."""
    lines = f"POST {LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n"
    with socket.create_connection(("127.0.0.1", site.port), 30) as peer:
        peer.sendall(f"{lines}{head}\r\n\r\n".encode())
        with suppress(ConnectionError):  # it need not listen to the end
            peer.sendall(body)
        return peer.recv(12).split()[1]


def test_a_recording_that_is_too_large_is_refused_before_it_comes(site: WebSite) -> None:
    assert sent(site, "Content-Length: 1048577", b"") == b"413"


def test_a_recording_that_turns_out_too_large_is_refused_while_it_comes(site: WebSite) -> None:
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"

    assert sent(site, "Transfer-Encoding: chunked", chunk * 17) == b"413"
    assert uploads(site) == []


def test_uploads_are_bounded_in_number(site: WebSite, uploaded: str, file: Path) -> None:
    statuses = [site.ask(LIST, "POST", file.read_bytes()).status for _ in range(8)]

    assert statuses == [201] * 7 + [503]
    assert site.ask(uploaded, "DELETE").status == 204
    assert site.ask(LIST, "POST", file.read_bytes()).status == 201


def test_uploads_are_bounded_together(site: WebSite, file: Path, uploaded: str) -> None:
    """Two and a half times 1 MiB: a recording may have anything at its end."""
    body = file.read_bytes().ljust(800 << 10, b"\0")

    assert [site.ask(LIST, "POST", body).status for _ in range(3)] == [201, 201, 413]


# -- who may ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "HEAD"])
@pytest.mark.parametrize("path", [LIST, FILE, f"{FILE}/snapshot", f"{FILE}/history"])
def test_without_a_token_there_is_no_recording(site: WebSite, path: str, method: str) -> None:
    assert site.ask(path, method, token=None).status == 401


def test_another_page_can_neither_upload_nor_close(site: WebSite, uploaded: str) -> None:
    foreign = {"Origin": "http://evil.example"}

    assert site.ask(LIST, "POST", b"x", foreign).status == 403
    assert site.ask(uploaded, "DELETE", headers=foreign).status == 403
    assert site.ask(uploaded).status == 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, WebSite]]:
    """A server with its page, where a token can be made for anybody."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("shared")
    server = RunningServer(folder, "--no-shm", "--http", f"127.0.0.1:{port}").wait_ready()

    def link() -> str:
        return finish("web", "--link", "--socket", server.path).stdout.strip()

    try:
        with closing(AllocationClient(server.path)) as client:
            client.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM, site="/home/me/secret.py:1 f")
            wait_until(lambda: bool(link()))
            site = WebSite(port, link().partition("/#token=")[2], server.process)  # type: ignore[arg-type]
            wait_until(lambda: site.ask(PAST).status == 200)
            yield server, site
    finally:
        server.stop()


def test_the_past_is_kept_while_nobody_looks(shared: tuple[RunningServer, WebSite]) -> None:
    _, site = shared

    found = site.ask(f"{PAST}/snapshot?detail=buffers").document

    assert [device["memory"]["dram"]["held"] for device in found["devices"]] == [3 << 20]
    assert found["buffers"][0]["site"] == "/home/me/secret.py:1 f"
    listed = {recording["id"]: recording for recording in site.ask(LIST).document["recordings"]}
    assert listed["past"]["problem"] is None


def test_an_instant_of_the_past_stays_what_it_was(shared: tuple[RunningServer, WebSite]) -> None:
    server, site = shared
    with closing(AllocationClient(server.path)) as client:
        client.report_allocation(0, 7, 1 << 20, MemoryKind.DRAM)
        server.sees(lambda seen: seen.devices[0].memory.dram.held == 4 << 20)
        wait_until(lambda: held(site, "end") == 4 << 20)
        then = site.ask(f"{PAST}/instant").document
        client.report_allocation(0, 8, 1 << 20, MemoryKind.DRAM)
        wait_until(lambda: held(site, "end") == 5 << 20)

        assert held(site, f"@{then['time_ns']}") == 4 << 20


def held(site: WebSite, at: str) -> int:
    found = site.ask(f"{PAST}/snapshot?at={at}").document
    return sum(device["memory"]["dram"]["held"] for device in found["devices"])


# -- other users -----------------------------------------------------------------------------------------------------

ME, STRANGER, OTHER = os.geteuid(), 54_321, 54_322


class Inside:
    """The application in this process, so that a token can be anybody's."""

    opened: ClassVar[list[Recordings]] = []

    def __init__(self, recordings: Recordings, feed: Feed) -> None:
        self.opened.append(recordings)
        self.tokens = Tokens()
        site = Site(Live(feed, 0.1), self.tokens, dict, recordings=recordings)
        self._app = site.app([])

    def ask(
        self, uid: int, path: str, method: str = "GET", body: bytes = b""
    ) -> tuple[int, dict[str, Any]]:
        return asyncio.run(self._ask(uid, path, method, body))

    async def _ask(
        self, uid: int, path: str, method: str, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        token = f"Bearer {self.tokens.issue(uid)}".encode()
        where, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": where, "query_string": query.encode(),
            "headers": [(b"host", b"localhost"), (b"authorization", token)],
        }  # fmt: skip
        answer: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            answer.append(message)

        await self._app(scope, receive, send)
        told = b"".join(message.get("body", b"") for message in answer[1:])
        return answer[0]["status"], json.loads(told) if told else {}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while Inside.opened:
        Inside.opened.pop().close()


def test_the_file_of_the_command_line_is_for_its_user_and_root(file: Path) -> None:
    inside = Inside(Recordings(str(file)), LocalFeed(str(file.parent)))

    assert inside.ask(ME, FILE)[0] == inside.ask(0, FILE)[0] == 200
    assert inside.ask(STRANGER, LIST)[1]["recordings"] == []
    for path in (FILE, f"{FILE}/snapshot", f"{FILE}/history", f"{FILE}/markers"):
        assert inside.ask(STRANGER, path)[0] == 404


def test_an_upload_is_for_its_sender_and_root(file: Path) -> None:
    inside = Inside(Recordings(), LocalFeed(str(file.parent)))
    status, entry = inside.ask(STRANGER, LIST, "POST", file.read_bytes())
    assert status == 201
    path = f"{LIST}/{entry['id']}"

    assert [inside.ask(uid, path)[0] for uid in (STRANGER, 0, OTHER)] == [200, 200, 404]
    assert inside.ask(OTHER, path, "DELETE")[0] == 404
    assert inside.ask(OTHER, LIST)[1]["recordings"] == []
    assert inside.ask(STRANGER, path, "DELETE")[0] == 204


def test_a_recording_that_takes_too_long_to_read_is_given_up(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Inside(Recordings(), LocalFeed(str(file.parent)))
    path = f"{LIST}/{inside.ask(STRANGER, LIST, 'POST', file.read_bytes())[1]['id']}"

    # when: no time is left to read it
    with monkeypatch.context() as patch:
        patch.setattr(Child, "_until", lambda _: 0.0)
        listed = inside.ask(0, LIST)
        hurried = [inside.ask(STRANGER, f"{path}{what}") for what in ("/history", "/snapshot", "")]

    # then: each question says so, and none has left it in a state that is wrong
    assert listed[0] == 200
    assert [status for status, _ in hurried] == [413] * 3
    assert "too much time" in hurried[0][1]["error"]
    for what in ("/history", "/snapshot?at=peak:dram&detail=buffers"):
        status, answer = inside.ask(STRANGER, f"{path}{what}")
        assert (status, unnamed(answer)) == (200, unnamed(from_file(file, what)))
    assert inside.ask(STRANGER, path, "DELETE")[0] == 204


# Turns for ever, in a process that can import nothing of the tests.
SPIN = partial(functools.reduce, operator.is_, itertools.repeat(0))


def test_a_question_ends_when_its_processor_time_is_used_up(file: Path) -> None:
    child = Child(str(file), "x.ttmem", ReadLimits(memory=1 << 30, cpu_s=0, wall_s=3600.0))

    with closing(child):
        assert json.loads(child.ask(span))["bytes"]
        with pytest.raises(LimitReached):
            child.ask(SPIN)


def unnamed(document: dict[str, Any]) -> dict[str, Any]:
    """Without the name of the recording: an upload has another one."""
    recording = document.get("host", {}).get("recording")
    return document | {"host": recording | {"file": ""}} if recording else document


def from_file(file: Path, what: str) -> dict[str, Any]:
    return Inside(Recordings(str(file)), LocalFeed(str(file.parent))).ask(0, f"{FILE}{what}")[1]


def test_closing_an_upload_ends_what_reads_it(file: Path) -> None:
    async def close_meanwhile() -> None:
        with file.open("rb") as data:
            shared = opened.Uploads()
            upload = opened.Upload("x.ttmem", ME, data, threading.Lock(), shared)
            await upload.ask(ME, span)
            asked = asyncio.ensure_future(upload.ask(ME, SPIN))
            await asyncio.sleep(0)  # it is being asked, or will be
            upload.close()
            await asked

    with pytest.raises((HTTPException, TtmemError), match="closed"):
        asyncio.run(close_meanwhile())


class Slow(opened.Opened):
    """Answers when it is let go on."""

    def __init__(self) -> None:
        super().__init__("x.ttmem", opened.ANYBODY)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def answer(self, work: Work) -> str:
        self.begun.set()
        self.go_on.wait()
        return work(None)  # type: ignore[arg-type]


def test_who_asks_much_about_a_recording_keeps_nobody_waiting() -> None:
    """As the past hour, which all users share."""
    served: list[int] = []

    async def ask_much() -> list[str | BaseException]:
        shared = Slow()

        def ask(uid: int) -> asyncio.Future[str]:
            def work(_: Recording) -> str:
                served.append(uid)
                return str(uid)

            return asyncio.ensure_future(shared.ask(uid, work))

        first = ask(STRANGER)
        await asyncio.to_thread(shared.begun.wait)
        asked = [first, *(ask(STRANGER) for _ in range(40)), ask(OTHER)]
        await asyncio.sleep(0)  # all of them wait now
        shared.go_on.set()
        try:
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            shared.close()

    answers = asyncio.run(ask_much())

    # then: the other user is next, or the one after that
    assert OTHER in served[:3]
    assert answers[-1] == str(OTHER)
    assert served.count(STRANGER) == fair_thread.MOST_OF_A_USER
    assert [type(answer) for answer in answers].count(
        fair_thread.Busy
    ) == 41 - fair_thread.MOST_OF_A_USER


def test_a_recording_that_is_busy_is_listed_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Inside(Recordings(str(file)), LocalFeed(str(file.parent)))
    monkeypatch.setattr(fair_thread, "MOST_OF_A_USER", 0)

    status, document = inside.ask(ME, LIST)

    assert status == 200
    assert "try again later" in document["recordings"][0]["problem"]
    assert inside.ask(ME, f"{FILE}/instant")[0] == 503


def test_of_the_past_others_see_amounts_but_no_commands_and_paths(
    shared: tuple[RunningServer, WebSite],
) -> None:
    server, _ = shared
    source = ServerFeed(server.path)
    with closing(PastFeed(source, source)) as feed:
        wait_until(lambda: feed.read() and feed.memory is not None and feed.memory.end > 0)
        inside = Inside(Recordings(past=feed), feed)
        wait_until(lambda: inside.ask(0, f"{PAST}/snapshot")[1].get("devices"))
        finish("simulate", "cnn", "--steps", 1, "--socket", server.path)
        wait_until(lambda: inside.ask(0, f"{PAST}/markers")[1]["markers"])

        asked = [
            {uid: inside.ask(uid, f"{PAST}{path}")[1] for uid in (0, STRANGER)}
            for path in ("/snapshot?detail=buffers,events", "", "/markers")
        ]

    snapshot, info, markers = asked
    commands = [process["command"] for process in (snapshot[0] | info[0])["processes"]]
    assert all(commands)
    assert snapshot[0]["devices"][0]["memory"] == snapshot[STRANGER]["devices"][0]["memory"]
    assert "secret" in json.dumps(snapshot[0])
    assert info[0]["recorded"]
    assert {marker["text"] for marker in markers[STRANGER]["markers"]} == {CLOSED}
    for answers in asked:
        told = json.dumps(answers[STRANGER])
        assert "secret" not in told
        assert all(command not in told for command in commands)


def test_a_recording_is_read_with_more_than_1024_descriptors_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        while files.enter_context(open(os.devnull)).fileno() < 1100:
            pass
        child = files.enter_context(closing(Child(str(GOLDEN), "a", ReadLimits(1 << 30, 60, 60.0))))
        assert json.loads(child.ask(span))["growing"] is False
