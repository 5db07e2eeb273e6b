"""A server of 2025-06-18 with one bad habit: odd.py PORT reset|close|get500once|get404|nosession

reset       the GET stream opens, and the connection breaks in the middle of it
close       the GET stream opens, and ends
get500once  the first GET fails
get404      there is no GET stream, and the wrong status says so
nosession   it gives out no session ids, but has a GET stream

GET /seen tells how often it was asked: {"gets": …, "initializes": …, "lists": …}. POST /flip changes its tools; a stream that is
open is told.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, habit = int(sys.argv[1]), sys.argv[2]
lock = threading.Lock()
seen = {"gets": 0, "initializes": 0, "lists": 0}
tools = [{"name": "steady", "inputSchema": {"type": "object"}}]
extra = {"name": "extra", "inputSchema": {"type": "object"}}
streams = []


class Odd(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer(self, asked, result, headers=()):
        message = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        self.reply(200, json.dumps(message).encode(), headers)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/flip":
            return self.flip()
        asked = json.loads(body)
        method = asked.get("method")
        if method == "initialize":
            with lock:
                seen["initializes"] += 1
                number = seen["initializes"]
            headers = [] if habit == "nosession" else [("Mcp-Session-Id", f"session-{number}")]
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "odd", "version": "1"},
            }
            self.answer(asked, result, headers)
        elif method == "tools/list":
            with lock:
                seen["lists"] += 1
                listed = list(tools)
            self.answer(asked, {"tools": listed})
        elif "id" in asked:
            error = {"code": -32601, "message": "Method not found"}
            message = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
            self.reply(400, json.dumps(message).encode())
        else:
            self.reply(202)

    def flip(self):
        with lock:
            if extra in tools:
                tools.remove(extra)
            else:
                tools.append(extra)
            told = list(streams)
        for stream in told:
            stream.set()
        self.reply(200)

    def do_GET(self):
        if self.path == "/seen":
            return self.reply(200, json.dumps(seen).encode())
        with lock:
            seen["gets"] += 1
            number = seen["gets"]
        if habit == "get404":
            return self.reply(404)
        if habit == "get500once" and number == 1:
            return self.reply(500)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        if habit == "reset":
            self.wfile.write(b"40\r\n: this chunk is longer")
            self.wfile.flush()
            return self.connection.close()
        if habit == "close":
            self.chunk(b": that was all\n\n")
            return self.wfile.write(b"0\r\n\r\n")
        changed = threading.Event()
        with lock:
            streams.append(changed)
        try:
            while True:
                if changed.wait(5):
                    changed.clear()
                    note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                    self.chunk(f"data: {json.dumps(note)}\n\n".encode())
                else:
                    self.chunk(b": still here\n\n")
        except OSError:
            pass
        finally:
            with lock:
                streams.remove(changed)

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


ThreadingHTTPServer(("127.0.0.1", port), Odd).serve_forever()
