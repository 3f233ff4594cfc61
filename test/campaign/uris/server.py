"""An MCP server for the files of a folder: urllib.parse and unquote. Prints its port."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlparse

ROOT = os.path.realpath(sys.argv[1])


def list_files():
    for folder, _, names in sorted(os.walk(ROOT)):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            yield {"uri": "file:///" + quote(path), "name": path}


def read_uri(uri):
    parts = urlparse(uri)
    path = os.path.normpath(ROOT + "/" + unquote(parts.path))
    if parts.scheme != "file" or not path.startswith(ROOT + os.sep):
        raise ValueError("not found")
    with open(path, encoding="utf-8") as file:
        return file.read()


def result_of(method, params):
    if method == "initialize":
        server = {"name": "files", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}, "serverInfo": server}
    if method == "resources/list":
        return {"resources": list(list_files())}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "file:///{+path}", "name": "file"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": read_uri(params["uri"])}]}
    return {} if method == "ping" else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(405, None)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.answer(202, None)
            return
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = result_of(message["method"], message.get("params"))
            if result is None:
                reply["error"] = {"code": -32601, "message": "unknown method"}
            else:
                reply["result"] = result
        except Exception as error:
            reply["error"] = {"code": -32602, "message": str(error)}
        self.answer(200, reply)

    def answer(self, status, reply):
        body = b"" if reply is None else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
