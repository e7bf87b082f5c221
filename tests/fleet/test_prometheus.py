"""What a Prometheus may say, and what is made of it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from tests.fleet.answers import GIB, NOW, answering, fleet_of_three, series, vector
from ttmem.commands import main
from ttmem.errors import BadInput, NoServer, Refused, TtmemError
from ttmem.fleet.asking import AWAITED, ask, ask_fleet, ask_host
from ttmem.fleet.prometheus import MOST_BYTES, TOKEN_VARIABLE, Prometheus, quoted
from ttmem.views.figures import Units
from ttmem.views.monitor.fleet import FleetMonitor
from ttmem.views.monitor.live_data import Reading


@pytest.fixture
def three() -> Iterator[Prometheus]:
    with answering(fleet_of_three) as (url, _):
        yield Prometheus(url)


def test_hosts_that_do_not_answer_come_first_then_the_fullest(three: Prometheus) -> None:
    fleet = ask_fleet(three)

    assert [host.name for host in fleet.hosts] == ["c:1", "a:1", "b:1"]
    stale, full, _ = fleet.hosts
    assert (stale.stale, stale.seen_ns) == ("no answer", int((NOW - 600) * 1e9))
    assert (stale.l1_share, stale.devices) == (None, None)  # what was recorded is not the present
    assert (full.l1_share, full.failed, full.boards) == (0.9, 1, {"p150": 1})
    assert fleet.stale == 1


def test_devices_of_all_hosts_are_listed_the_fullest_first(three: Prometheus) -> None:
    first, second = ask_fleet(three).worst

    assert (first.host, first.l1_used, first.l1_capacity) == ("a:1", 90, 100)
    assert (first.dram_used, first.dram_capacity) == (GIB, 8 * GIB)
    assert (first.board, first.anomalies) == ("p150", 2)
    assert (second.host, second.dram_share) == ("b:1", 0.25)


def test_a_host_has_its_devices_and_processes(three: Prometheus) -> None:
    view = ask_host(three, "a")

    assert view.host.name == "a:1"
    assert view.host.stale is None
    assert [device.unique_id for device in view.devices] == ["11"]
    assert view.processes is not None
    (process,) = view.processes
    assert (process.user, process.program, process.job) == ("ann", "serve.py", "77")
    assert (process.dram, process.l1, process.devices) == (GIB, 90, 1)


def test_a_host_that_nobody_has_heard_of_is_named(three: Prometheus) -> None:
    with pytest.raises(BadInput, match=r"no metrics of a host 'zoo'"):
        ask_host(three, "zoo")


def test_ps_prints_the_fleet(three: Prometheus, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", "--prometheus", three.url]) == 0
    text = capsys.readouterr().out
    assert re.search(r"stale since .*: no answer +c:1 +N/A", text)
    assert re.search(r"1 allocation failed +a:1 .* 90%", text)
    assert main(["ps", "--prometheus", three.url, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ttmem.fleet/1"
    assert [host["name"] for host in document["hosts"]] == ["c:1", "a:1", "b:1"]
    assert main(["ps", "--prometheus", three.url, "--host", "a"]) == 0
    assert re.search(r"serve\.py +ann +1\.0 GiB +90 B", capsys.readouterr().out)


def test_top_prints_a_page(three: Prometheus, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--prometheus", three.url, "--once"]) == 0

    assert "stale since" in capsys.readouterr().out


def lines(monitor: FleetMonitor, width: int = 120, height: int = 30) -> str:
    return "\n".join("".join(span.text for span in line) for line in monitor.screen(width, height))


def test_enter_opens_a_host_and_escape_goes_back(three: Prometheus) -> None:
    monitor = FleetMonitor(three.url, interval=5.0)

    def refresh() -> str:
        monitor.take([Reading(monitor.host, 0.0, ask(three, monitor.host))])
        return lines(monitor)

    assert "c:1" in refresh()
    monitor.press("down")
    lines(monitor)
    monitor.press("enter")
    assert monitor.host == "a:1"
    text = refresh()
    assert "serve.py" in text
    assert "b:1" not in text
    monitor.press("tab")
    monitor.press("s")
    monitor.press("u")
    assert "serve.py" in lines(monitor)
    monitor.press("escape")
    assert monitor.host is None
    monitor.press("2")
    assert "b:1" in lines(monitor)
    monitor.press("/")
    for key in "a:1":
        monitor.press(key)
    monitor.press("enter")
    assert "b:1" not in lines(monitor)
    monitor.press("h")
    assert "worst first" in lines(monitor)
    monitor.press("q")
    assert monitor.done


def test_a_click_chooses_and_a_second_one_opens(three: Prometheus) -> None:
    monitor = FleetMonitor(three.url, interval=5.0)
    monitor.take([Reading(None, 0.0, ask(three, None))])
    row = next(at for at, line in enumerate(lines(monitor).splitlines()) if " b:1" in line)

    monitor.click(40, row)
    lines(monitor)
    monitor.click(40, row)

    assert monitor.host == "b:1"


def test_the_monitor_says_that_prometheus_is_gone_and_keeps_what_it_knew(three: Prometheus) -> None:
    monitor = FleetMonitor(three.url, interval=5.0)
    monitor.take([Reading(None, 0.0, ask(three, None))])

    monitor.take([Reading(None, 0.0, problem="http://x cannot be reached: Connection refused")])

    text = lines(monitor)
    assert "cannot be reached" in text
    assert "trying again" in text
    assert "c:1" in text


# -- trouble -----------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def test_an_unreachable_prometheus_is_one_line_and_exit_code_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    assert main(["ps", "--prometheus", url]) == 3

    assert capsys.readouterr().err == f"ttmem: {url} cannot be reached: Connection refused\n"


def test_a_silent_prometheus_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        prometheus = Prometheus(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.05)

        with pytest.raises(NoServer, match="does not answer within"):
            prometheus.query("up")


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (200, b"<html>welcome</html>", TtmemError, "does not answer like a Prometheus"),
        (200, b"[]", TtmemError, "does not answer like a Prometheus"),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}', TtmemError, "matrix"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{}]}}', TtmemError, "KeyError"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":7}]}}', TtmemError, "Attribute"),
        (200, b"[" * 100_000, TtmemError, "does not answer like a Prometheus"),
        (200, b'{"status":"error","error":"bad \\u001b[2J"}', Refused, r"says: bad \?\[2J"),
        (401, b"", Refused, "password in the URL, or a token"),
        (404, b"", Refused, "is this the URL of a Prometheus"),
        (422, b'{"status":"error","error":"too many samples"}', Refused, "too many samples"),
        (503, b"busy", Refused, "HTTP 503"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said_in_one_sentence(
    status: int, body: bytes, kind: type[TtmemError], words: str
) -> None:
    with answering(lambda _: (status, body)) as (url, _), pytest.raises(kind, match=words) as told:
        Prometheus(url).query("up")

    assert "\n" not in str(told.value)


def test_an_endless_answer_is_not_read() -> None:
    endless = answering(lambda _: b" " * (MOST_BYTES + 1))
    with endless as (url, _), pytest.raises(TtmemError, match="larger than 64 MiB"):
        Prometheus(url).query("up")


def test_a_redirection_is_not_followed() -> None:
    elsewhere = {"Location": "http://192.0.2.1/steal"}
    moved = answering(lambda _: (302, b""), elsewhere)
    with moved as (url, heard), pytest.raises(Refused, match="redirects to http"):
        Prometheus(url.replace("//", "//me:secret@")).query("up")

    assert len(heard) == 1


def test_passwords_and_tokens_are_sent_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(lambda _: vector()) as (url, heard):
        mine = Prometheus(url.replace("//", "//me:s%40cret@"))
        mine.query("up")
        monkeypatch.setenv(TOKEN_VARIABLE, "t0ken")
        Prometheus(url).query("up")

    assert mine.url == url
    assert [headers["Authorization"] for headers in heard] == ["Basic bWU6c0BjcmV0", "Bearer t0ken"]


def test_labels_cannot_write_to_the_terminal_and_values_are_numbers() -> None:
    bad = series("x", 1.0, instance="\x1b[31mevil" + "e" * 1000)
    wrong = [series("x", value) for value in (float("nan"), float("-inf"), 1e300)]
    with answering(lambda _: vector(bad, *wrong)) as (url, _):
        (sample,) = Prometheus(url).query("x")

    assert sample.instance == "?[31mevil" + "e" * (256 - 9)


@pytest.mark.parametrize(
    "url", ["", "prometheus:9090", "ftp://x", "http://", "http://x:99999999", "http://a b", "http://x?y=1"]
)  # fmt: skip
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        Prometheus(url)


def test_a_target_that_never_answered_is_listed_first_without_a_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def answer(expression: str) -> bytes:
        if expression == AWAITED:
            return vector(series("up", 0, instance="d:1"), series("up", 0, instance="c:1"))
        return fleet_of_three(expression)

    with answering(answer) as (url, _):
        fleet = ask_fleet(Prometheus(url))
        assert main(["ps", "--prometheus", url]) == 0

    assert [host.name for host in fleet.hosts] == ["c:1", "d:1", "a:1", "b:1"]
    assert [host.seen_ns is None for host in fleet.hosts] == [False, True, False, False]
    assert re.search(r"no recent figures: no answer +d:1 +N/A", capsys.readouterr().out)


def test_a_prometheus_without_ttmem_says_how_to_get_it() -> None:
    with (
        answering(lambda _: vector()) as (url, _),
        pytest.raises(NoServer, match=r"docs/fleet\.md"),
    ):
        ask_fleet(Prometheus(url))


def test_names_are_quoted_in_questions() -> None:
    assert quoted('a"} or up{x="\\') == '"a\\"} or up{x=\\"\\\\"'


@pytest.mark.parametrize("option", ["--pid=1", "--socket=/x", "--by=site", "--telemetry"])
def test_options_of_one_host_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ps", "--prometheus", "http://x", option]) == 2

    assert f"cannot be combined with {option.partition('=')[0]}" in capsys.readouterr().err


def test_the_help_of_the_fleet_scrolls_to_its_end(three: Prometheus) -> None:
    monitor = FleetMonitor(three.url, interval=5.0)
    monitor.press("h")
    first = lines(monitor, height=12)
    monitor.press("end")

    assert "live processes that use a device" not in first
    assert "live processes that use a device" in lines(monitor, height=12)


def test_a_key_that_fails_does_not_end_the_monitor_of_the_fleet(three: Prometheus) -> None:
    monitor = FleetMonitor(three.url, interval=5.0)
    monitor.state.units = cast("Units", None)
    monitor.press("u")

    assert "! the key 'u' on the page Hosts failed (ValueError" in lines(monitor)
    assert len(monitor.faults) == 1
