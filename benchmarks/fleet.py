"""1,000 hosts with 32 chips each in one real Prometheus: how long the fleet page takes, and what Prometheus needs.

One process plays all exporters. What it serves is what `ttmem metrics` prints of a Galaxy, with other unique ids and
amounts for each host. Prometheus scrapes it and evaluates the recording rules of `deploy`.
"""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

import yaml
from deploy.make_dashboards import RULES
from tests.web.browser import PROGRAM, Browser, found
from tests.web.site import website

from benchmarks import ground
from benchmarks.ground import Failed, amount
from benchmarks.table import Row
from ttmem.exporters.openmetrics import families, render
from ttmem.fleet.asking import ask_fleet, ask_host
from ttmem.fleet.prometheus import Prometheus
from ttmem.recording import Recording
from ttmem.snapshots import Question
from ttmem.views.fleet import render_fleet

HOSTS = amount(1000, 3)
TIMES = amount(7, 2)
INTERVAL_S = amount(30, 1)  # of scrapes and rules; 15 s is usual, but two cores play all hosts, too
PATIENCE_S = 400.0
LIMIT_S = 2.0
OPENED = "document.querySelectorAll('tbody tr').length"


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_fleet(folder, HOSTS, INTERVAL_S) as (url, pid, series):
            return _rows(Prometheus(url, timeout=60.0), url, pid, series, folder)


@contextmanager
def running_fleet(folder: Path, hosts: int, interval_s: int) -> Iterator[tuple[str, int, int]]:
    """A Prometheus that has scraped so many hosts: its URL and pid, and the series of each host."""
    program = shutil.which("prometheus")
    if program is None or not found():
        raise Failed(f"prometheus and {PROGRAM} are needed; `make tools` installs them")
    with (
        _exporters(folder) as (port, series),
        _prometheus(program, folder, port, hosts, interval_s) as (url, pid),
    ):
        _await_all(Prometheus(url, timeout=60.0), hosts, interval_s)
        yield url, pid, series


def _rows(prometheus: Prometheus, url: str, pid: int, series: int, folder: Path) -> list[Row]:
    asked, drawn, one = [], [], []
    for _ in range(TIMES):
        began = time.perf_counter()
        fleet = ask_fleet(prometheus)
        asked.append(time.perf_counter() - began)
        began = time.perf_counter()
        render_fleet(fleet, width=120, color=True)
        drawn.append(time.perf_counter() - began)
        began = time.perf_counter()
        view = ask_host(prometheus, fleet.hosts[0].name)
        one.append(time.perf_counter() - began)
    if not fleet.recorded or len(fleet.hosts) != HOSTS or len(view.devices) != 32:
        raise Failed(f"{len(fleet.hosts)} hosts, recorded: {fleet.recorded}")
    opened = _open_page(url, folder)
    told = _own_metrics(url)
    note = f"{told['prometheus_tsdb_head_series']:,.0f} series in all, {_rss_mb(pid):,} MB resident"
    rules = told["prometheus_rule_group_last_duration_seconds"]
    what = f"fleet of {HOSTS:,} hosts x 32 chips"
    both = median(map(sum, zip(asked, drawn, strict=True)))
    return [
        Row(f"{what}: ask Prometheus and draw", both, "s", LIMIT_S, note=note),
        Row(f"{what}: one host", median(one), "s", LIMIT_S, note=f"{series:,} series of each host"),
        Row(f"{what}: the page opens in Chromium", median(opened), "s", LIMIT_S, note=f"worst {max(opened):.2f} s"),
        Row(f"{what}: recording rules", rules, "s", INTERVAL_S, note=f"each {INTERVAL_S} s"),
    ]  # fmt: skip


def _open_page(url: str, folder: Path) -> list[float]:
    """From the click on a link to the rows, each time in a new server, which knows no answer yet."""
    times = []
    with Browser(folder / "profile") as browser:
        for _ in range(min(TIMES, 3)):
            with website("--prometheus", url, "--shm", str(folder)) as site:
                began = time.perf_counter()
                link = f"http://127.0.0.1:{site.port}/fleet#token={site.token}"
                browser.ask("Page.navigate", url=link)
                ground.wait_until(lambda: bool(browser.run(OPENED)), "the page has no rows")
                times.append(time.perf_counter() - began)
    return times


def _await_all(prometheus: Prometheus, hosts: int, interval_s: int) -> None:
    """Every host has been scraped twice, and the rules have seen them all."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = prometheus.query("count(instance:ttmem_devices:count)")
        if found and found[0].value == hosts:
            time.sleep(interval_s)
            return
        time.sleep(1.0)
    raise Failed(f"not all hosts were scraped within {PATIENCE_S:.0f} s")


def _own_metrics(url: str) -> dict[str, float]:
    """Prometheus about itself; the largest of each name."""
    told: dict[str, float] = {}
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                name = name.partition("{")[0]
                told[name] = max(told.get(name, 0.0), float(value))
    return told


def _rss_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1000


# -- the hosts -------------------------------------------------------------------------------------------------------


def _galaxy(folder: Path) -> str:
    """The metrics of a Galaxy at its peak."""
    file = folder / "galaxy.ttmem"
    command = ["simulate", "galaxy", "--steps", "2", "--rate", "0", "-o", str(file)]
    subprocess.run([sys.executable, "-m", "ttmem", *command], check=True, stdout=subprocess.DEVNULL)
    with Recording(str(file)) as recording:
        found = recording.snapshot(recording.instant("peak:dram"), Question())
    return render(families(found))


@contextmanager
def _exporters(folder: Path) -> Iterator[tuple[int, int]]:
    """The port of all of them, and the series of each."""
    text = _galaxy(folder)
    varied = ("ttmem_l1_used_bytes", "ttmem_snapshot_time_seconds")
    lines = text.splitlines()
    fixed = "\n".join(line for line in lines if not line.startswith(varied)).encode()
    capacities = [line for line in lines if line.startswith("ttmem_l1_capacity_bytes")]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = int(self.path.strip("/"))
            own = [f"ttmem_snapshot_time_seconds {time.time()}"]
            for at, line in enumerate(capacities):
                where, _, capacity = line.replace("capacity", "used").rpartition(" ")
                share = (37 * number) % 90 + (
                    11 * at
                ) % 8  # hosts differ more than the chips of one
                own.append(f"{where} {int(capacity) * share // 97}")
            body = b"\n".join([fixed, *(line.encode() for line in own), b""])
            body = body.replace(b'device="', b'device="%d' % (number + 1000))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=server.serve_forever, daemon=True)
    child.start()
    try:
        yield server.server_port, sum(not line.startswith("#") for line in lines)
    finally:
        child.kill()
        child.join()
        server.server_close()


@contextmanager
def _prometheus(
    program: str, folder: Path, exporters: int, hosts: int, interval_s: int
) -> Iterator[tuple[str, int]]:
    targets = [
        {
            "targets": [f"127.0.0.1:{exporters}"],
            "labels": {"instance": f"host{at:04}:7417", "__metrics_path__": f"/{at}"},
        }
        for at in range(hosts)
    ]
    every = f"{interval_s}s"
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "ttmem", "static_configs": targets}],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    port = _free_port()
    command = [program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command) as process:
        try:
            ground.wait_until(lambda: _ready(url), "Prometheus does not start", 0.2)
            yield url, process.pid
        finally:
            process.kill()


def _free_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        return free.server_port


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
