"""The client of FastMCP, in both eras: `auto` is its default."""

import asyncio

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import MCPError

import story


class Story:
    def __init__(self, client):
        self.client = client

    async def connected(self):
        session = self.client.session
        return {"protocol": session.protocol_version, "server": session.server_info.name}

    async def tools(self):
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, tool, arguments):
        return story.plain(await self.client.call_tool_mcp(tool, arguments))

    async def call_cancelled(self, arguments, running):
        calling = asyncio.create_task(self.call("bash", arguments))
        await running
        calling.cancel()
        await asyncio.wait([calling])

    async def error_code(self, tool):
        try:
            await self.client.call_tool_mcp(tool, {})
        except MCPError as error:
            return error.code
        return None


async def run(mode, era, target):
    if not isinstance(target, str):
        target = StdioTransport(command=target[0], args=target[1:], keep_alive=False)
    async with Client(target, mode=era) as client:
        return await story.tell(Story(client), mode)


story.main(run)
