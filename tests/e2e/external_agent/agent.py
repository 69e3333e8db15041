"""An agent of its own, over the MCP SDK for Python: HOW [ANSWER].

It lists the tools, looks around with the shell, and hands in what the shell printed. `http` and `stdio` are two ways to
the same tools; `print` only prints its answer; the others misbehave."""

import asyncio
import json
import os
import sys

import httpx2
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


def connection(how):
    if how == "stdio":
        return StdioServerParameters(
            command=os.environ["GAIA_PROGRAM"], args=["--quiet", "host", os.environ["GAIA_MCP_CONFIG"]]
        )
    headers = {"Authorization": "Bearer " + os.environ["GAIA_MCP_TOKEN"]}
    return streamable_http_client(os.environ["GAIA_MCP_URL"], http_client=httpx2.AsyncClient(headers=headers, timeout=60))


async def work(how):
    async with Client(connection(how)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        print(json.dumps({"tools": tools, "environment": sorted(os.environ)}), file=sys.stderr)
        if how == "many":
            for _ in range(9):
                await client.call_tool("bash", {"command": "true"})
        printed = await client.call_tool("bash", {"command": "cat /shared_files/* && echo $((6 * 7))"})
        answer = printed.content[0].text.splitlines()[0]
        if how == "linger":
            print("FINAL ANSWER: not this", flush=True)
        if how == "print":
            print(f"I read the file.\nFINAL ANSWER: {answer}")
            return
        if how == "die":
            print("something broke", file=sys.stderr, flush=True)
            os._exit(3)
        if how == "quiet":
            return
        result = await client.call_tool("submit", {"answer": answer})
        if result.is_error:
            # It warns once of an answer that reads like none.
            result = await client.call_tool("submit", {"answer": answer})
        if how == "many":
            late = await client.call_tool("bash", {"command": "true"})
            print(json.dumps({"late": late.content[0].text, "is_error": late.is_error}), file=sys.stderr)
        if how == "linger":
            await asyncio.sleep(600)
        assert not result.is_error, result


asyncio.run(work(sys.argv[1]))
