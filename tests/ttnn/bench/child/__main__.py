"""The process that has ttnn loaded: takes snippets from a pipe, and answers over another.

One request and one answer per line, in JSON; all that the runtime prints goes to standard output, which is a file.

    {"code": "...", "names": {...}}   ->   {"value": ...}   or   {"error": "traceback"}

A farewell, the line `null`, lets it close its device and leave. If the pipe ends without one, the parent is dead: it
leaves at once, whatever it does.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

from tests.ttnn.bench.answers import FAREWELL
from tests.ttnn.bench.child.views import core_buffers, views

Answer = TypeVar("Answer")


def evaluate(code: str, names: dict[str, Any]) -> Any:
    """Runs the snippet; its value is that of the last line, if this is an expression."""
    tree = ast.parse(code, "<snippet>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<snippet>", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<snippet>", "eval"), names)


def in_thread(work: Callable[[], Answer]) -> Answer:
    """The same in a thread of its own, where the runtime's own counters are blind."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    thread.join()
    return answers[0]


def read_requests(descriptor: int, waiting: queue.SimpleQueue[str | None]) -> None:
    """In a thread, so that the parent's death is noticed while a snippet runs."""
    with open(descriptor, encoding="utf-8") as requests:
        for line in requests:
            if line == FAREWELL:
                waiting.put(None)
                return
            waiting.put(line)
    os._exit(1)


def serve(waiting: queue.SimpleQueue[str | None], answers: TextIO, names: dict[str, Any]) -> None:
    while (line := waiting.get()) is not None:
        try:
            request = json.loads(line)
            names.update(request["names"])
            answer = json.dumps({"value": evaluate(request["code"], names)})
        except BaseException:
            answer = json.dumps({"error": traceback.format_exc()})
        print(answer, file=answers, flush=True)


def main(request_descriptor: str, answer_descriptor: str) -> None:
    waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    arguments = (int(request_descriptor), waiting)
    threading.Thread(target=read_requests, args=arguments, daemon=True).start()
    ttnn = importlib.import_module("ttnn")
    names: dict[str, Any] = {"ttnn": ttnn, "device": None, "in_thread": in_thread}
    names["views"] = lambda: views(ttnn, names["device"])
    names["core_buffers"] = lambda work: core_buffers(ttnn, work)
    with open(int(answer_descriptor), "w", encoding="utf-8") as answers:
        serve(waiting, answers, names)
    if names["device"] is not None:
        ttnn.close_mesh_device(names["device"])


if __name__ == "__main__":
    main(*sys.argv[1:])
