"""Hosts in network namespaces of their own, joined by a bridge, and a real Prometheus that scrapes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.make_dashboards import RULES

from tests.server.harness import RunningServer
from ttmem.client import AllocationClient, DeviceDeclaration, MemoryKind

PORT = 7417
MIB, GIB = 1 << 20, 1 << 30


class Namespace:
    """A network namespace, kept by a process in it. Its user is root there, and nobody special here."""

    def __init__(self, inside: Namespace | None = None) -> None:
        enter = ["unshare", "--net"] if inside else ["unshare", "--map-root-user", "--net"]
        command = [*(inside.prefix if inside else ()), *enter, "sh", "-c", "echo; exec cat"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            pytest.skip("this machine has no network namespaces for its users")
        self.run("ip", "link", "set", "lo", "up")

    @property
    def prefix(self) -> list[str]:
        """Before a command that is to run in it."""
        pid = str(self.process.pid)
        return ["nsenter", "--target", pid, "--user", "--net", "--preserve-credentials"]

    def run(self, *command: str) -> str:
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def ttmem(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self.prefix, sys.executable, "-m", "ttmem", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def close(self) -> None:
        with self.process:  # its standard input ends, and so does `cat`
            pass


class Host:
    """One with a device, a process that holds memory of it, and `ttmem web`."""

    def __init__(self, rack: Namespace, number: int, folder: Path, stack: ExitStack) -> None:
        self.address = f"10.77.0.{10 + number}"
        self.name = f"{self.address}:{PORT}"
        self._link = f"host{number}"
        self._rack = rack
        self.namespace = stack.enter_context(closing(Namespace(rack)))
        pid = str(self.namespace.process.pid)
        rack.run("ip", "link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", pid)  # fmt: skip
        rack.run("ip", "link", "set", self._link, "master", "bridge", "up")
        self.namespace.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.namespace.run("ip", "link", "set", "eth0", "up")
        folder.mkdir()
        server = RunningServer(folder, "--no-shm").wait_ready()
        stack.callback(server.stop)
        self.client = stack.enter_context(closing(AllocationClient(server.path)))
        self.client.declare_device(
            DeviceDeclaration(
                0,
                unique_id=f"70000{number}",
                board="p150",
                dram_banks=8,
                dram_bank_size=GIB,
                l1_banks=100,
                l1_bank_size=MIB,
            )
        )
        self.client.report_allocation(0, 1, (number + 1) * GIB, MemoryKind.DRAM)
        self.client.report_allocation(0, 2, 20 * (number + 1) * MIB, MemoryKind.L1)
        server.sees(lambda seen: any(device.memory.l1.held for device in seen.devices))
        self.token = self._serve_pages(server.path, stack)

    def _serve_pages(self, socket: str, stack: ExitStack) -> str:
        command = [sys.executable, "-m", "ttmem", "web", "--http", self.name, "--insecure"]
        command += ["--per-process", "--socket", socket]
        page = subprocess.Popen(
            [*self.namespace.prefix, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        stack.callback(_end, page)
        assert page.stdout is not None
        return page.stdout.readline().strip().partition("#token=")[2]

    def cut_off(self) -> None:
        """Pulls its cable."""
        self._rack.run("ip", "link", "set", self._link, "down")


def _end(process: subprocess.Popen[str]) -> None:
    with process:
        process.terminate()


class Rack:
    """Hosts, and the namespace of Prometheus and its users."""

    URL = "http://127.0.0.1:9090"

    def __init__(self, namespace: Namespace, hosts: Sequence[Host]) -> None:
        self.namespace = namespace
        self.hosts = hosts

    def ttmem(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.namespace.ttmem(*arguments)


@contextmanager
def rack(folder: Path, count: int, *, rules: bool = True) -> Iterator[Rack]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    with ExitStack() as stack:
        outside = stack.enter_context(closing(Namespace()))
        outside.run("ip", "link", "add", "bridge", "type", "bridge")
        outside.run("ip", "address", "add", "10.77.0.1/24", "dev", "bridge")
        outside.run("ip", "link", "set", "bridge", "up")
        hosts = [Host(outside, at, folder / f"host{at}", stack) for at in range(count)]
        command = [*outside.prefix, program, *_prometheus(folder, hosts, rules)]
        prometheus = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        stack.callback(prometheus.wait, 30)
        stack.callback(prometheus.terminate)
        yield Rack(outside, hosts)


def _prometheus(folder: Path, hosts: Sequence[Host], rules: bool) -> list[str]:
    config: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)] if rules else [],
        "scrape_configs": [
            {
                "job_name": host.address,
                "authorization": {"credentials": host.token},
                "static_configs": [{"targets": [host.name]}],
            }
            for host in hosts
        ],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    return [
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:9090",
        "--log.level=error",
    ]
