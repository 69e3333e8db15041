"""An MCP server for the rules of the loop: tools that meet each other, one that dies, one that shows pictures and sound."""

import base64
import json
import os
import struct
import sys
import threading
import zlib

LOCK = threading.Lock()
MEETING = threading.Barrier(2)
READ_ONLY = {"annotations": {"readOnlyHint": True}}
TOOLS = {"meet": READ_ONLY, "meet_alone": {}, "die": {}, "show": {}, "structured": {}, "embedded": {}, "hand_in": {}}
HANDED_IN = []


def send(message):
    with LOCK:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x20\x40\x80" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def encoded(data):
    return base64.b64encode(data).decode()


def result(tool):
    if tool.startswith("meet"):
        # Two that run at the same time meet; one that runs alone waits in vain.
        try:
            MEETING.wait(5)
            return {"content": [{"type": "text", "text": "met"}]}
        except threading.BrokenBarrierError:
            MEETING.reset()
            return {"content": [{"type": "text", "text": "nobody came"}], "isError": True}
    if tool == "hand_in":
        HANDED_IN.append(tool)
        return {"content": [{"type": "text", "text": "look again" if len(HANDED_IN) == 1 else "taken"}],
                "isError": len(HANDED_IN) == 1}
    if tool == "die":
        os._exit(3)
    if tool == "show":
        return {"content": [
            {"type": "text", "text": "look and listen"},
            {"type": "image", "mimeType": "image/png", "data": encoded(png(3000, 20))},
            {"type": "audio", "mimeType": "audio/wav", "data": encoded(b"RIFF\0\0\0\0WAVEfmt ")},
            {"type": "resource", "resource": {"uri": "file:///a/report.pdf", "mimeType": "application/pdf",
                                              "blob": encoded(b"%PDF-1.7 nothing")}},
        ]}
    if tool == "structured":
        return {"content": [], "structuredContent": {"depth": 17}}
    return {"content": [{"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain",
                                                          "text": "embedded words"}}]}


def call(identifier, tool):
    send({"id": identifier, "result": result(tool)})


for line in sys.stdin:
    request = json.loads(line)
    identifier, method = request.get("id"), request.get("method")
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        send({"id": identifier, "result": {"protocolVersion": version, "capabilities": {"tools": {}},
                                           "serverInfo": {"name": "peer", "version": "1"}}})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}, **more} for name, more in TOOLS.items()]
        send({"id": identifier, "result": {"tools": tools}})
    elif method == "tools/call":
        threading.Thread(target=call, args=(identifier, request["params"]["name"])).start()
    elif identifier is not None:
        send({"id": identifier, "error": {"code": -32601, "message": "no such method"}})
