"""A server on the official Python SDK: python_sdk.py PORT http|sse|stateless

http speaks 2026-07-28 and, with sessions, everything since 2025-03-26; sse speaks 2024-11-05; stateless has no sessions and no
stream. POST /flip adds the tool `extra` or takes it away, and tells whoever can be told. Sessions of the older versions can only be
told through an object that a call hands out, so they call the tool `enroll` first.
"""

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import ToolsListChanged
from starlette.requests import Request
from starlette.responses import PlainTextResponse

port, form = int(sys.argv[1]), sys.argv[2]
server = MCPServer("python-sdk", version="1.0")
enrolled = []
there = False


def extra() -> str:
    """Comes and goes"""
    return "here"


@server.tool()
async def enroll(ctx: Context) -> str:
    """Asks to be told of changes"""
    enrolled.append(ctx.session)
    return "enrolled"


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers"""
    return a + b


@server.custom_route("/flip", methods=["POST"])
async def flip(_: Request) -> PlainTextResponse:
    global there
    there = not there
    if there:
        server.add_tool(extra, name="extra")
    else:
        server.remove_tool("extra")
    await server._subscriptions.publish(ToolsListChanged())
    for session in list(enrolled):
        try:
            await session.send_tool_list_changed()
        except Exception:
            enrolled.remove(session)
    return PlainTextResponse("extra" if there else "no extra")


options = {"host": "127.0.0.1", "port": port}
if form == "sse":
    server.run(transport="sse", **options)
else:
    server.run(transport="streamable-http", stateless_http=form == "stateless", **options)
