"""Serve read-only tools for agents over the Model Context Protocol, on standard input and output.

    {"mcpServers": {"ttmem": {"command": "ttmem", "args": ["mcp"]}}}

The tools are snapshot (`ttmem ps`), peak, leaks, diff, size and explain. Each returns the text that the verb
prints.

exit codes: 0 the agent closed the connection
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from ttmem.own_python import module_command
from ttmem.version import __version__

PROTOCOL = "2025-06-18"
LONGEST_LINE = 4 << 20
LONGEST_ANSWER = 60_000  # characters
PATIENCE_S = 300
PARSE_ERROR, BAD_REQUEST, NO_METHOD, BAD_PARAMETERS = -32700, -32600, -32601, -32602


class Argument(NamedTuple):
    about: str
    option: str | None = None  # None: positional
    choices: tuple[str, ...] = ()
    needed: bool = False
    kind: str = "string"

    @property
    def schema(self) -> dict[str, Any]:
        choices = {"enum": list(self.choices)} if self.choices else {}
        return {"type": self.kind, "description": self.about, **choices}


class Tool(NamedTuple):
    verb: str
    about: str
    arguments: Mapping[str, Argument]
    text: str | None = None  # the argument that is passed on standard input


FILE = Argument("Path of a recording (ttmem run -o, ttmem record).", needed=True)
SITES = ("site", "op", "phase", "pid")
TOOLS = {
    "snapshot": Tool(
        "ps",
        "Who uses the memory of the Tenstorrent devices of this host now, or at an instant of a recording.",
        {
            "file": FILE._replace(about="A recording instead of the present.", needed=False),
            "at": Argument("With file: 12.5s, peak:l1, peak:dram, oom, end.", "--at"),
            "by": Argument("Group live bytes by this instead.", "--by", SITES),
        },
    ),
    "peak": Tool(
        "peak",
        "What was alive at the peak of each memory.",
        {"file": FILE, "by": Argument("Group the live set by this.", "--by", SITES)},
    ),
    "leaks": Tool(
        "leaks",
        "What grows from iteration to iteration, with verdict, evidence and call site.",
        {
            "file": FILE._replace(needed=False),
            "pid": Argument("A live process under ttmem run, instead of a file.", "--pid", kind="integer"),
            "duration": Argument("With pid: how long to watch it, such as 30s.", "--duration"),
        },
    ),
    "diff": Tool(
        "diff",
        "What changed between two recordings: peaks, and what explains them.",
        {"before": FILE, "after": FILE},
    ),
    "size": Tool(
        "size",
        "Which l1_small_size, trace_region_size and worker_l1_size a recorded run calls for.",
        {"file": FILE},
    ),
    "explain": Tool(
        "explain",
        "Why allocations failed, in a recording or in the text of a log.",
        {
            "file": FILE._replace(needed=False),
            "log": Argument("Output of the runtime with its error messages, instead of a file."),
        },
        text="log",
    ),
}  # fmt: skip


def prepare(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(options: argparse.Namespace) -> int:
    serve(sys.stdin.buffer, sys.stdout.buffer)
    return 0


def serve(source: BinaryIO, out: BinaryIO) -> None:
    """One JSON-RPC message per line, until the source ends."""
    for line in _lines(source):
        answer = _answer(line)
        if answer is not None:
            out.write(json.dumps({"jsonrpc": "2.0", **answer}).encode() + b"\n")
            out.flush()


def _lines(source: BinaryIO) -> Iterator[bytes]:
    while line := source.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := source.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass  # the rest of a line that is too long
            line = b"too long"
        if line.strip():
            yield line


def _answer(line: bytes) -> dict[str, Any] | None:
    """None for a notification, which gets no answer."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "this is not JSON, or longer than 4 MiB")
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return _error(None, BAD_REQUEST, "this is not a request")
    if "id" not in message:
        return None
    number, method, given = message["id"], message["method"], message.get("params") or {}
    if method == "initialize":
        return {"id": number, "result": _initialized(given)}
    if method == "ping":
        return {"id": number, "result": {}}
    if method == "tools/list":
        return {"id": number, "result": {"tools": [_described(*tool) for tool in TOOLS.items()]}}
    if method == "tools/call":
        return _called(number, given)
    return _error(number, NO_METHOD, f"there is no method {method!r:.60}")


def _error(number: Any, code: int, text: str) -> dict[str, Any]:
    return {"id": number, "error": {"code": code, "message": text}}


def _initialized(given: Any) -> dict[str, Any]:
    wanted = given.get("protocolVersion") if isinstance(given, dict) else None
    return {
        "protocolVersion": wanted if isinstance(wanted, str) else PROTOCOL,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "ttmem", "version": __version__},
    }


def _described(name: str, tool: Tool) -> dict[str, Any]:
    return {
        "name": name,
        "description": tool.about,
        "inputSchema": {
            "type": "object",
            "properties": {key: argument.schema for key, argument in tool.arguments.items()},
            "required": [key for key, argument in tool.arguments.items() if argument.needed],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False},
    }


def _called(number: Any, given: Any) -> dict[str, Any]:
    tool = TOOLS.get(given.get("name", "")) if isinstance(given, dict) else None
    arguments = given.get("arguments") or {} if tool else {}
    if tool is None or not isinstance(arguments, dict):
        return _error(number, BAD_PARAMETERS, f"there are {', '.join(TOOLS)}")
    problem = _problem(tool, arguments)
    if problem:
        return _error(number, BAD_PARAMETERS, problem)
    failed, text = _answer_of(tool, arguments)
    content = [{"type": "text", "text": text}]
    return {"id": number, "result": {"content": content, "isError": failed}}


def _problem(tool: Tool, given: Mapping[str, Any]) -> str | None:
    for name, value in given.items():
        argument = tool.arguments.get(name)
        if argument is None:
            return f"there is no argument {name!r:.60}; there are {', '.join(tool.arguments)}"
        if type(value) is not (int if argument.kind == "integer" else str) or value == "":
            return f"{name} is a {argument.kind}"
        if argument.choices and value not in argument.choices:
            return f"{name} is one of {', '.join(argument.choices)}"
    missing = [
        name for name, argument in tool.arguments.items() if argument.needed and name not in given
    ]
    return f"{missing[0]} is needed" if missing else None


def _answer_of(tool: Tool, given: Mapping[str, Any]) -> tuple[bool, str]:
    """Runs the verb in a process of its own, so that no failure of it ends the connection."""
    command = module_command("ttmem", tool.verb)
    for name, argument in tool.arguments.items():
        if name in given and argument.option is not None:
            command.append(f"{argument.option}={given[name]}")
        elif name in given and name != tool.text:
            # Absolute, so that no name is taken for an option.
            command.append(os.path.abspath(given[name]))
    try:
        done = subprocess.run(
            command,
            input=given.get(tool.text or "", ""),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE_S,
            env={**os.environ, "COLUMNS": "120", "NO_COLOR": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True, f"ttmem {tool.verb} took longer than {PATIENCE_S} s and was ended"
    text = done.stdout.strip() or done.stderr.strip()
    if len(text) > LONGEST_ANSWER:
        text = f"{text[:LONGEST_ANSWER]}\n... {len(text) - LONGEST_ANSWER:,} more characters"
    return done.returncode != 0 and not done.stdout.strip(), text
