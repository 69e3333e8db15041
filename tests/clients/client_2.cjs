"use strict";
// The client package of the TypeScript SDK from 2.0 on, which speaks both eras: `legacy` is its default.

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const { main, tell } = require("./story.cjs");

main(async (mode, era, target) => {
  const http = target instanceof URL;
  const transport = http ? new StreamableHTTPClientTransport(target) : new StdioClientTransport(target);
  const client = new Client({ name: "gaia-tests", version: "1" }, { versionNegotiation: { mode: era } });
  await client.connect(transport);
  const connected = () => ({
    protocol: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion().name,
  });
  const callTool = (params, options) => client.callTool(params, options);
  const facts = await tell(client, callTool, connected, mode);
  // `close` alone leaves the session, and so its container, to the server's idle timeout.
  if (http && era === "legacy") await transport.terminateSession();
  await client.close();
  return facts;
});
