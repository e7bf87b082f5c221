"""`ttmem mcp`: the official client of the protocol talks to it, and nonsense does not end it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.exporters.history import record
from tests.own_process import TTMEM, finish
from ttmem.commands.mcp import TOOLS

COMMAND = [*TTMEM, "mcp"]


def talk(*lines: str) -> list[dict[str, Any]]:
    """The answers to some lines."""
    given = "\n".join(lines) + "\n"
    done = subprocess.run(COMMAND, input=given, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(name: str, **arguments: Any) -> str:
    given = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given})


@pytest.mark.slow
def test_the_official_client_lists_and_calls_the_tools(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    file = tmp_path / "run.ttmem"
    record(file)
    server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])

    async def session() -> tuple[set[str], str]:
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            tools = await client.list_tools()
            answer = await client.call_tool("snapshot", {"file": str(file), "by": "site"})
            return {tool.name for tool in tools.tools}, str(answer.content[0])

    names, text = anyio.run(session)

    assert names == set(TOOLS)
    assert "weights.py:7" in text


def test_an_answer_is_what_the_verb_prints(tmp_path: Path) -> None:
    file = tmp_path / "run.ttmem"
    record(file)
    printed = finish("peak", file, COLUMNS="120").stdout

    (answer,) = talk(call("peak", file=str(file)))

    assert answer["result"]["isError"] is False
    assert answer["result"]["content"][0]["text"].split() == printed.split()


def test_a_log_is_explained_from_its_text() -> None:
    log = (
        "TT_FATAL: Out of Memory: Not enough space to allocate 8388608 B L1 buffer across 64 banks,"
    )

    (answer,) = talk(call("explain", log=f"{log} where each bank needs to store 131072 B"))

    assert "8.0 MiB" in answer["result"]["content"][0]["text"]


def test_a_failure_of_a_tool_is_an_answer() -> None:
    (answer,) = talk(call("peak", file="/no/such/recording"))

    assert answer["result"]["isError"] is True
    assert "/no/such/recording" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "not JSON"),
        ("[1, 2]", "not a request"),
        ('{"id": 1, "method": "reset"}', "there is no method"),
        (call("remove"), "there are snapshot"),
        (call("peak"), "file is needed"),
        (call("peak", file=7), "file is a string"),
        (call("peak", file="a", by="colour"), "by is one of"),
        (call("snapshot", socket="/x"), "there is no argument"),
        ('{"id": 1, "method": "tools/call", "params": 7}', "there are snapshot"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_wrong_message_is_answered_and_the_next_one_too(line: str, says: str) -> None:
    wrong, ping = talk(line, '{"id": 2, "method": "ping"}')

    assert says in wrong["error"]["message"]
    assert ping == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_file_name_is_never_an_option() -> None:
    (answer,) = talk(call("peak", file="--help"))

    assert answer["result"]["isError"] is True


def test_a_notification_gets_no_answer() -> None:
    assert talk('{"jsonrpc": "2.0", "method": "notifications/initialized"}') == []
