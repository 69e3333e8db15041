"""An MCP server that gives away everything it was given: its environment and arguments, in every way a server can."""

import json
import os
import sys

GIVEN = json.dumps({"environment": dict(os.environ), "arguments": sys.argv})
# As many programs print it: not as JSON.
LINES = "\n".join(f"{name}={value}" for name, value in os.environ.items())
TOOLS = ["result", "structured", "refuse", "log", "stderr", "noise", "crash"]


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(identifier, tool):
    text = {"type": "text", "text": LINES + "\n" + GIVEN}
    if tool == "refuse":
        return send({"id": identifier, "error": {"code": -32603, "message": "no: " + GIVEN, "data": GIVEN}})
    if tool == "structured":
        result = {"content": [], "structuredContent": json.loads(GIVEN), "isError": True}
        return send({"id": identifier, "result": result})
    if tool == "log":
        for level in ["info", "error"]:
            send({"method": "notifications/message", "params": {"level": level, "data": GIVEN}})
            send({"method": "notifications/message", "params": {"level": level, "data": LINES}})
    if tool == "stderr":
        print(LINES, GIVEN, file=sys.stderr, flush=True)
    if tool == "noise":
        print(LINES, flush=True)
    if tool == "crash":
        print("Traceback: " + LINES, file=sys.stderr, flush=True)
        os._exit(3)
    return send({"id": identifier, "result": {"content": [text], "isError": tool == "noise"}})


def main():
    if sys.argv[1] == "dies":
        print(LINES, flush=True)
        print("cannot start with", LINES, GIVEN, file=sys.stderr, flush=True)
        sys.exit(1)
    for line in sys.stdin:
        request = json.loads(line)
        identifier, method = request.get("id"), request.get("method")
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            send({"id": identifier, "result": {"protocolVersion": version, "capabilities": {"tools": {}, "logging": {}},
                                               "serverInfo": {"name": "leaky", "version": "1"}}})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            send({"id": identifier, "result": {"tools": tools}})
        elif method == "tools/call":
            call(identifier, request["params"]["name"])
        elif identifier is not None:
            send({"id": identifier, "error": {"code": -32601, "message": "no such method"}})


main()
