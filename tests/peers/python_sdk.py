"""A server on the official Python SDK: python_sdk.py PORT http|sse|stateless [ISSUER]

http speaks 2026-07-28 and, with sessions, everything since 2025-03-26; sse speaks 2024-11-05; stateless has no sessions and no
stream. POST /flip adds the tool `extra` or takes it away, and tells whoever can be told. Sessions of the older versions can only be
told through an object that a call hands out, so they call the tool `enroll` first. With ISSUER, an authorization server as in
authority.mjs, it lets nobody in without a token of that one.
"""

import asyncio
import json
import sys
import urllib.parse
import urllib.request

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import ToolsListChanged
from starlette.requests import Request
from starlette.responses import PlainTextResponse

port, form, issuer = int(sys.argv[1]), sys.argv[2], (sys.argv[3:] or [None])[0]


class Asking:
    """Asks the authorization server about each token."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return await asyncio.to_thread(self._ask, token)

    def _ask(self, token: str) -> AccessToken | None:
        body = urllib.parse.urlencode({"token": token}).encode()
        request = urllib.request.Request(f"{issuer}/token/introspection", body)
        request.add_header("Authorization", "Basic cGVlcjpwZWVy")
        with urllib.request.urlopen(request) as reply:
            said = json.load(reply)
        if not said["active"]:
            return None
        return AccessToken(
            token=token, client_id=said["client_id"], scopes=said.get("scope", "").split(), expires_at=said["exp"],
            resource=said.get("aud"), subject=said.get("sub"),
        )


guarded = {}
if issuer:
    guarded = {
        "token_verifier": Asking(),
        "auth": AuthSettings(
            issuer_url=issuer, resource_server_url=f"http://127.0.0.1:{port}/mcp", required_scopes=["mcp"], validate_token_resource=True,
        ),
    }
server = MCPServer("python-sdk", version="1.0", **guarded)
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
