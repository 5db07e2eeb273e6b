// A server on the official TypeScript SDK, version 1: node typescript_sdk.mjs PORT
//
// /mcp speaks Streamable HTTP with sessions, /sse and /messages speak HTTP+SSE. POST /flip adds the tool `extra` or takes it away in
// every session, which tells of it by itself; POST /forget ends all sessions, as a restart does.
import { randomUUID } from "node:crypto";
import express from "express";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const port = Number(process.argv[2]);
/** Session id → its transport, and its own copy of the tool that comes and goes. */
const sessions = new Map();
let there = false;

function conversation() {
  const server = new McpServer({ name: "typescript-sdk", version: "1.0" });
  const says = (text) => async () => ({ content: [{ type: "text", text }] });
  server.registerTool("steady", { description: "Always here" }, says("steady"));
  const extra = server.registerTool("extra", { description: "Comes and goes" }, says("here"));
  if (!there) extra.disable();
  return { server, extra };
}

const app = express();
app.use(express.json());

app.post("/flip", (_request, response) => {
  there = !there;
  for (const { extra } of sessions.values()) {
    if (there) extra.enable();
    else extra.disable();
  }
  response.send(there ? "extra" : "no extra");
});

app.post("/forget", async (_request, response) => {
  for (const { transport } of [...sessions.values()]) await transport.close();
  sessions.clear();
  response.send("forgotten");
});

app.all("/mcp", async (request, response) => {
  const id = request.headers["mcp-session-id"];
  if (id !== undefined) {
    const known = sessions.get(id);
    if (known) return known.transport.handleRequest(request, response, request.body);
    const error = { code: -32001, message: "Session not found" };
    return response.status(404).json({ jsonrpc: "2.0", error, id: null });
  }
  const { server, extra } = conversation();
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (born) => sessions.set(born, { transport, extra }),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
});

app.get("/sse", async (_request, response) => {
  const { server, extra } = conversation();
  const transport = new SSEServerTransport("/messages", response);
  sessions.set(transport.sessionId, { transport, extra });
  response.on("close", () => sessions.delete(transport.sessionId));
  await server.connect(transport);
});

app.post("/messages", async (request, response) => {
  const known = sessions.get(request.query.sessionId);
  if (known) await known.transport.handlePostMessage(request, response, request.body);
  else response.status(404).end();
});

app.listen(port, "127.0.0.1");
