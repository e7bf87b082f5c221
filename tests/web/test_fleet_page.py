"""The page of many hosts: the rows of `ttmem ps --prometheus --json`, in a real browser, for those who have a token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.answers import answering, fleet_of_three
from tests.own_process import printed
from tests.patience import wait_until
from tests.web.browser import Browser, found
from tests.web.site import WebSite, website

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not found(), reason="chromium-headless-shell is not installed"),
]


@pytest.fixture(scope="module")
def prometheus() -> Iterator[str]:
    with answering(fleet_of_three) as (url, _):
        yield url


@pytest.fixture(scope="module")
def site(prometheus: str) -> Iterator[WebSite]:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    with website("--prometheus", prometheus) as running:
        yield running


def test_the_api_has_the_rows_of_ps(site: WebSite, prometheus: str) -> None:
    command = ("ps", "--prometheus", prometheus)

    assert site.ask("/api/v1/fleet").document == printed(*command)
    assert site.ask("/api/v1/fleet/host?name=a").document == printed(*command, "--host", "a")


@pytest.mark.parametrize(
    ("path", "asked"),
    [("/api/v1/fleet", ""), ("/api/v1/fleet/host", "?name=a"), ("/api/v1/fleet/host", "?name=b")],
)
def test_every_key_of_an_answer_is_described(site: WebSite, path: str, asked: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    described = site.ask("/openapi.json").document["paths"][path]["get"]["responses"]
    schema = described["200"]["content"]["application/json"]["schema"]

    found = site.ask(path + asked).document

    jsonschema.validate(found, closed(schema))


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, without room for keys that it does not name."""
    parts = {
        key: {name: closed(part) for name, part in value.items()} if key == "properties" else value
        for key, value in schema.items()
    }
    if "items" in parts:
        parts["items"] = closed(parts["items"])
    return {"additionalProperties": False, **parts} if "properties" in parts else parts


@pytest.mark.parametrize("path", ["/api/v1/fleet", "/api/v1/fleet/host?name=a"])
def test_figures_of_hosts_need_a_token(site: WebSite, path: str) -> None:
    assert site.ask(path, token=None).status == 401
    assert site.ask(path, token="no").status == 401
    assert site.ask(path, headers={"Host": "evil.example"}).status == 421
    assert site.ask(path, "POST").status == 405


@pytest.mark.parametrize("path", ["host", "host?name=", "host?nam=a", "host?name=zoo"])
def test_bad_questions_are_refused_with_a_sentence(site: WebSite, path: str) -> None:
    answer = site.ask(f"/api/v1/fleet/{path}")

    assert answer.status == 400
    assert len(answer.document["error"]) > 10


def test_the_page_of_a_host_leads_back_to_all_hosts(site: WebSite) -> None:
    assert b'<a href="/fleet">' in site.ask("/").body


def test_there_is_no_fleet_without_a_prometheus(tmp_path: Path) -> None:
    with website("--shm", str(tmp_path)) as running:
        assert b"/fleet" not in running.ask("/").body
        assert running.ask("/fleet").status == 404
        assert running.ask("/api/v1/fleet").status == 404


def test_a_prometheus_that_is_gone_is_a_sentence() -> None:
    with answering(lambda _: (503, b"")) as (url, _), website("--prometheus", url) as running:
        answer = running.ask("/api/v1/fleet")

    assert (answer.status, answer.document) == (503, {"error": f"{url} says: HTTP 503"})


def test_the_page_shows_hosts_the_worst_first_and_opens_one(site: WebSite, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        link = f"http://127.0.0.1:{site.port}/fleet#token={site.token}"
        browser.ask("Page.navigate", url=link)
        wait_until(lambda: browser.run("document.querySelectorAll('tbody tr').length === 3"))
        rows = browser.run("[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)")
        stale, full, _ = rows
        assert "stale since" in stale
        assert "c:1" in stale
        assert "90%" in full
        assert browser.run("location.hash") == "#/hosts"  # the token is gone from the address

        browser.run(
            "[...document.querySelectorAll('a')].find((a) => a.textContent === 'a:1').click()"
        )
        wait_until(lambda: browser.run("document.querySelector('h2')?.textContent === 'a:1'"))
        text = browser.run("document.body.innerText")
        assert "serve.py" in text
        assert "1.0 GiB" in text

        browser.run("location.hash = '#/devices'")
        wait_until(lambda: browser.run("document.querySelectorAll('tbody tr').length === 2"))
        browser.run("location.hash = '#/host/zoo'")
        wait_until(lambda: browser.run("document.body.innerText.includes('no metrics of a host')"))


def l1_of_b_is_unknown(expression: str) -> bytes:
    document = json.loads(fleet_of_three(expression))
    known = [
        row
        for row in document["data"]["result"]
        if (row["metric"].get("__name__"), row["metric"].get("instance"))
        != ("ttmem_l1_used_bytes", "b:1")
    ]
    document["data"]["result"] = known
    return json.dumps(document).encode()


def test_an_unknown_amount_is_not_0_percent(tmp_path: Path) -> None:
    with (
        answering(l1_of_b_is_unknown) as (url, _),
        website("--prometheus", url) as site,
        Browser(tmp_path) as browser,
    ):
        link = f"http://127.0.0.1:{site.port}/fleet#token={site.token}"
        browser.ask("Page.navigate", url=link)
        wait_until(lambda: browser.run("document.querySelectorAll('tbody tr').length === 3"))
        browser.run("location.hash = '#/devices'")
        wait_until(lambda: browser.run("document.querySelectorAll('tbody tr').length === 2"))
        rows = browser.run(
            "[...document.querySelectorAll('tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"
        )

    assert [row[2:5] for row in rows if row[0] == "b:1"] == [["N/A", "25%", "N/A / 100 B"]]
