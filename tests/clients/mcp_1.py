"""The Python SDK before 2.0, which knows the protocol up to 2025-11-25."""

import asyncio
from contextlib import asynccontextmanager

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import story


class Client:
    def __init__(self, session):
        self.session = session

    async def connected(self):
        result = await self.session.initialize()
        return {"protocol": result.protocolVersion, "server": result.serverInfo.name}

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments):
        return story.plain(await self.session.call_tool(tool, arguments))

    async def call_cancelled(self, arguments, running):
        # This SDK tells the server nothing when a call is given up, so its users send the notification themselves.
        request = self.session._request_id
        calling = asyncio.create_task(self.call("bash", arguments))
        # Lets the call start before `running` sends its first request.
        await asyncio.sleep(0)
        await running
        params = types.CancelledNotificationParams(requestId=request, reason="the user gave up")
        notification = types.CancelledNotification(params=params)
        await self.session.send_notification(types.ClientNotification(notification))
        calling.cancel()
        await asyncio.wait([calling])

    async def error_code(self, tool):
        try:
            await self.session.call_tool(tool, {})
        except McpError as error:
            return error.error.code
        return None


@asynccontextmanager
async def streams(target):
    if isinstance(target, str):
        async with streamable_http_client(target) as (read, write, _session_id):
            yield read, write
    else:
        parameters = StdioServerParameters(command=target[0], args=target[1:])
        async with stdio_client(parameters) as (read, write):
            yield read, write


async def run(mode, _era, target):
    async with streams(target) as (read, write), ClientSession(read, write) as session:
        return await story.tell(Client(session), mode)


story.main(run)
