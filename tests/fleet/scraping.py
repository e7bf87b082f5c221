"""A real Prometheus with our rules."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.make_dashboards import rules


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


Ask = Callable[[str], list[Any]]


@contextmanager
def prometheus(folder: Path, *scraped: dict[str, Any]) -> Iterator[tuple[str, Ask]]:
    """A real one with our rules, all of them evaluated each second: its URL, and the answers to expressions."""
    program = tool("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"127.0.0.1:{free.getsockname()[1]}"
    groups = [{**group, "interval": "1s"} for group in rules()["groups"]]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    config = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": scraped,
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    command = [program, f"--config.file={folder / 'prometheus.yml'}", "--log.level=error"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={url}"]

    def ask(expression: str) -> list[Any]:
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://{url}/api/v1/query?{query}", timeout=10) as got:
                found: list[Any] = json.load(got)["data"]["result"]
        except OSError as problem:
            if getattr(problem, "code", 503) == 503:  # it is still starting
                return []
            raise
        return found

    with subprocess.Popen(command) as process:
        try:
            yield f"http://{url}", ask
        finally:
            process.kill()
