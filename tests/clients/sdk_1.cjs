"use strict";
// The TypeScript SDK before 2.0, which knows the protocol up to 2025-11-25.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { main, tell } = require("./story.cjs");

main(async (mode, _era, target) => {
  const http = target instanceof URL;
  const transport = http ? new StreamableHTTPClientTransport(target) : new StdioClientTransport(target);
  // The SDK keeps the version on the HTTP transport only; on stdio it is what the handshake agreed on.
  let protocol;
  transport.setProtocolVersion = ((set) => (version) => {
    protocol = version;
    set?.call(transport, version);
  })(transport.setProtocolVersion);
  const client = new Client({ name: "gaia-tests", version: "1" });
  await client.connect(transport);
  const callTool = (params, options) => client.callTool(params, undefined, options);
  const facts = await tell(client, callTool, () => ({ protocol, server: client.getServerVersion().name }), mode);
  // `close` alone leaves the session, and so its container, to the server's idle timeout.
  if (http) await transport.terminateSession();
  await client.close();
  return facts;
});
