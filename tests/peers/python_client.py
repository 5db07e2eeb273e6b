"""A client on the Python SDK 2.x: python_client.py URL auto|legacy

Prints one JSON object a line: {"tools":[...]} when it has listed, {"called":...} when it has called. Told of a change, through a
subscription or a notification, it lists again. Reads commands from its standard input, one a line: `call NAME JSON`, `list`, `end`.
"""

import asyncio
import json
import sys

from mcp import Client

url, era = sys.argv[1], sys.argv[2]


def say(what):
    print(json.dumps(what), flush=True)


class Ended(Exception):
    """Nobody wants anything any more."""


async def read(commands):
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        commands.put_nowait(line.decode().rstrip("\n").split(" ", 2))


async def converse(commands):
    """One connection, until it breaks."""
    changed = asyncio.Event()

    async def heard(message):
        if "ToolListChanged" in type(getattr(message, "root", message)).__name__:
            changed.set()

    mode = {"mode": "legacy"} if era == "legacy" else {}
    # What is cached may be older than the subscription.
    async with Client(url, message_handler=heard, cache=None, **mode) as client:
        say({"connected": client.protocol_version})

        async def listing():
            say({"tools": [tool.name for tool in (await client.list_tools()).tools]})

        async def subscribed():
            async with client.listen(tools_list_changed=True) as events:
                # Whatever changed while nobody listened.
                changed.set()
                async for _ in events:
                    changed.set()
            raise ConnectionError("the subscription ended")

        async def relisting():
            while True:
                await changed.wait()
                changed.clear()
                await listing()

        async def obeying():
            while True:
                word, *rest = await commands.get()
                if word == "call":
                    result = await client.call_tool(rest[0], json.loads(rest[1]))
                    say({"called": result.model_dump(mode="json", by_alias=True, exclude_none=True)})
                elif word == "list":
                    await listing()
                elif word == "end":
                    raise Ended

        await listing()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(relisting())
            tasks.create_task(obeying())
            if era != "legacy":
                tasks.create_task(subscribed())


def means_end(error):
    if isinstance(error, BaseExceptionGroup):
        return any(means_end(each) for each in error.exceptions)
    return isinstance(error, Ended)


async def main():
    commands = asyncio.Queue()
    reading = asyncio.create_task(read(commands))
    while True:
        try:
            await converse(commands)
        except BaseException as error:
            if means_end(error):
                break
            say({"error": repr(error)})
        await asyncio.sleep(0.2)
    reading.cancel()


asyncio.run(main())
