// A client on the TypeScript SDK 1.x: typescript_client.mjs URL [KEY]
// Prints one JSON object a line: {"tools":[…]} when it has listed, {"called":…} when it has called, {"error":…} when something
// failed. Told of a change, it lists again. Reads commands from its standard input, one a line: `call NAME JSON`, `list`, `end`.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key] = process.argv.slice(2);
const say = (what) => console.log(JSON.stringify(what));
const client = new Client({ name: "typescript-client", version: "1" });
client.onerror = (error) => say({ error: String(error) });
const list = async () => say({ tools: (await client.listTools()).tools.map((tool) => tool.name) });
const { ToolListChangedNotificationSchema } = await import("@modelcontextprotocol/sdk/types.js");
client.setNotificationHandler(ToolListChangedNotificationSchema, () => list().catch((error) => say({ error: String(error) })));
const headers = key ? { "X-API-Key": key } : {};
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers },
  reconnectionOptions: { initialReconnectionDelay: 100, maxReconnectionDelay: 500, reconnectionDelayGrowFactor: 1.2, maxRetries: 100 },
});
await client.connect(transport);
say({ connected: transport.protocolVersion });
await list();
for await (const line of createInterface({ input: process.stdin })) {
  const [word, name, ...rest] = line.split(" ");
  try {
    if (word === "call") say({ called: await client.callTool({ name, arguments: JSON.parse(rest.join(" ")) }) });
    if (word === "list") await list();
    if (word === "end") {
      await transport.terminateSession();
      break;
    }
  } catch (error) {
    say({ error: String(error) });
  }
}
await client.close();
process.exit(0);
