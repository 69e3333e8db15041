"""Calls the tools of server-everything through `gaia host` and prints what came: ERA PROGRAM ARGS..."""

import asyncio
import json
import sys

from mcp import StdioServerParameters
from mcp.client import Client


async def main(era, program, *args):
    async with Client(StdioServerParameters(command=program, args=list(args)), mode=era) as client:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        image = await client.call_tool("get-tiny-image", {})
        structured = await client.call_tool("get-structured-content", {"location": "New York"})
        long = await client.call_tool("echo", {"message": "x" * 10_000})
        heard = []

        async def progress(done, total, message):
            heard.append([done, total, message])

        slow = await client.call_tool(
            "trigger-long-running-operation", {"duration": 1, "steps": 4}, progress_callback=progress
        )
        picture = image.content[1]
        print(
            json.dumps(
                {
                    "tools": tools,
                    "image": [image.content[0].type, picture.type, picture.mime_type, len(picture.data) > 1000],
                    "structured": structured.structured_content,
                    "long": long.content[0].text,
                    "slow": slow.content[0].text,
                    "progress": [[done, total] for done, total, _message in heard if total],
                }
            )
        )


asyncio.run(main(*sys.argv[1:]))
