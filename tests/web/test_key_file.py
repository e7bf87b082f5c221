"""Tokens that outlast a restart, the token of a scraper, and what `ttmem serve` passes on to its page."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.own_process import finish
from tests.patience import wait_until
from tests.server.harness import RunningServer
from tests.sources.region_writer import N300_LOCAL, add_n300
from tests.web.site import WebSite, website
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind
from ttmem.wire.tokens import Tokens

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


def metrics_token(key: Path) -> str:
    return finish("web", "--key-file", str(key), "--metrics-token").stdout.strip()


def test_tokens_outlast_a_restart_with_the_key_in_a_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    options = ("--shm", str(tmp_path), "--key-file", str(key))

    with website(*options) as before:
        assert before.ask("/api/v1/snapshot").status == 200
    with website(*options) as after:
        assert after.ask("/api/v1/snapshot", token=before.token).status == 200
        assert after.ask("/metrics", token=metrics_token(key)).status == 200

    assert key.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["key"]


def test_without_it_they_do_not(tmp_path: Path) -> None:
    with website("--shm", str(tmp_path)) as before:
        pass
    with website("--shm", str(tmp_path)) as after:
        assert after.ask("/api/v1/snapshot", token=before.token).status == 401


@pytest.mark.parametrize(
    "path", ["/api/v1/snapshot", "/api/v1/events", "/api/v1/recording", "/metrics/"]
)
def test_the_token_of_a_scraper_opens_nothing_but_metrics(tmp_path: Path, path: str) -> None:
    key = tmp_path / "key"
    with website("--shm", str(tmp_path), "--key-file", str(key)) as site:
        token = metrics_token(key)

        assert site.ask("/metrics", token=token).status == 200
        assert site.ask(path, token=token).status == 401
        assert site.ask("/login", "POST", token.encode(), token=None).status == 403
        assert site.ask("/metrics", token=token[:-1] + "x").status == 401


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("0" * 64, 0o640, "chmod 600"),
        ("0" * 62, 0o600, "is not a key"),
        ("x" * 64, 0o600, "is not a key"),
        ("", 0o600, "is not a key"),
    ],
)
@pytest.mark.parametrize("verb", ["web", "serve"])
def test_a_key_that_is_open_or_none_is_refused(
    tmp_path: Path, verb: str, text: str, mode: int, says: str
) -> None:
    key = tmp_path / "key"
    key.write_text(text)
    key.chmod(mode)

    where = ["--socket", str(tmp_path / "s"), "--http", "127.0.0.1:0"]
    done = finish(verb, *where, "--key-file", str(key))

    assert done.returncode == 2
    assert says in done.stderr
    assert key.read_text() == text


@pytest.mark.parametrize(
    "option", ["--interval=0.5", "--telemetry", "--key-file=key", "--compat=tt-exporter"]
)
def test_an_option_of_the_page_needs_a_page(tmp_path: Path, option: str) -> None:
    done = finish("serve", "--socket", str(tmp_path / "s"), option)

    assert done.returncode == 2
    assert f"{option.partition('=')[0]} needs --http ADDR" in done.stderr


def test_a_token_for_metrics_needs_the_key() -> None:
    done = finish("web", "--metrics-token")

    assert done.returncode == 2
    assert "--metrics-token needs --key-file" in done.stderr


@pytest.fixture
def shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RunningServer, WebSite]]:
    """`ttmem serve --http` with every kind of option for its page; the token is that of a scraper."""
    root = tmp_path / "sysfs"
    root.mkdir()
    add_n300(root)
    monkeypatch.setenv("TTMEM_SYSFS", str(root))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    key = str(tmp_path / "key")
    options = ["--http", f"127.0.0.1:{port}", "--key-file", key, "--per-process", "--telemetry"]
    options += ["--compat", "tt-exporter"]
    options += ["--interval", "0.2", "--prometheus", "http://127.0.0.1:1"]
    server = RunningServer(tmp_path, "--no-shm", *options).wait_ready()
    try:
        with closing(AllocationClient(server.path)) as client:
            client.declare_device(DeviceDeclaration(0, unique_id=str(N300_LOCAL), board="n300"))
            client.report_allocation(0, 1, 3 << 20, MemoryKind.DRAM)
            yield server, WebSite(port, metrics_token(Path(key)), server.process)  # type: ignore[arg-type]
    finally:
        server.stop()


def test_a_server_passes_on_the_options_of_its_page(
    shared: tuple[RunningServer, WebSite],
) -> None:
    server, site = shared

    wait_until(
        lambda: f"the page is at http://127.0.0.1:{site.port}; `ttmem web --link`" in server.log
    )
    wait_until(lambda: b"ttmem_process_memory_bytes" in site.ask("/metrics").body)
    assert b"ttmem_temperature_celsius" in site.ask("/metrics").body
    assert b"tenstorrent_dram_used_bytes" in site.ask("/metrics").body
    assert site.ask("/fleet").status == 200
    assert server.log.count("the page is at") == 1


@pytest.mark.parametrize("padding", ["0", "00", "+", " "])
def test_a_token_is_valid_only_as_it_was_issued(padding: str) -> None:
    tokens = Tokens()
    issued = tokens.issue(1000)

    assert tokens.uid(issued) == 1000
    assert tokens.uid(padding + issued) is None
