"""The Python SDK from 2.0 on, which speaks both eras: `legacy` is what it offers before 2026, `auto` its default."""

import asyncio

from mcp import MCPError, StdioServerParameters
from mcp.client import Client

import story


class Story:
    def __init__(self, client):
        self.client = client

    async def connected(self):
        return {"protocol": self.client.protocol_version, "server": self.client.server_info.name}

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, arguments):
        return story.plain(await self.client.call_tool(tool, arguments))

    async def call_cancelled(self, arguments, running):
        calling = asyncio.create_task(self.call("bash", arguments))
        await running
        calling.cancel()
        await asyncio.wait([calling])

    async def error_code(self, tool):
        try:
            await self.client.call_tool(tool, {})
        except MCPError as error:
            return error.code
        return None


async def run(mode, era, target):
    if not isinstance(target, str):
        target = StdioServerParameters(command=target[0], args=target[1:])
    async with Client(target, mode=era) as client:
        return await story.tell(Story(client), mode)


story.main(run)
