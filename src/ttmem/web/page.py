"""One HTML file that needs nothing else: styles, modules and data are in it, and its policy forbids all connections."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

MODULES = (  # in the order of their imports
    "sizes.js",
    "payload.js",
    "window.js",
    "history.js",
    "icicle.js",
    "addresses.js",
    "cores.js",
    "tables.js",
    "elements.js",
    "charts.js",
    "panels.js",
    "report.js",
)
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def page(title: str, payload: str) -> str:
    """`payload` is base64, so it cannot end the element that holds it."""
    static = files("ttmem.web") / "static"
    style = (static / "style.css").read_text("utf-8")
    script = bundle({name: (static / name).read_text("utf-8") for name in MODULES})
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("a module ends its own element")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    template = (static / "report.html").read_text("utf-8")
    parts = {"title": escape(title), "policy": policy, "style": style, "script": script}
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: {**parts, "data": payload}[found[1]], template)
    return text


def bundle(modules: dict[str, str]) -> str:
    """Modules as one script: a browser loads no module from a file:// address. Each keeps a scope of its own."""
    parts = ['"use strict";']
    for name, text in modules.items():
        body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", text)
        exported = ", ".join(_EXPORT.findall(body))
        body = _EXPORT.sub("", body)
        parts.append(f"const {_variable(name)} = (() => {{\n{body}return {{ {exported} }};\n}})();")
    return "\n".join(parts)


def _variable(file: str) -> str:
    return f"module_{file.removesuffix('.js')}"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
