"""The server of the SDK campaign on the Python SDK 2.x, on the port of PORT."""

import os
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import Completion
from pydantic import BaseModel

mcp = MCPServer("python-2", version="1.0.0", instructions="A server for tests.")
NAMES = ["Ada", "Alan", "Grace"]
canceled_calls = 0


class Sum(BaseModel):
    sum: float


class Name(BaseModel):
    name: str


@mcp.tool()
def echo(text: str) -> str:
    """Returns its text"""
    return text


@mcp.tool()
def add(a: float, b: float) -> Sum:
    """Adds two numbers"""
    return Sum(sum=a + b)


@mcp.tool()
def fail() -> str:
    """Fails"""
    raise ValueError("the tool failed")


@mcp.tool()
async def progress(steps: int, ctx: Context) -> str:
    """Reports progress"""
    for done in range(1, steps + 1):
        await ctx.report_progress(done, steps, f"step {done}")
    return f"{steps} steps"


def ask_name() -> Elicit[Name]:
    return Elicit("Your name?", Name)


@mcp.tool()
async def ask(answer: Annotated[Name, Resolve(ask_name)]) -> str:
    """Asks for a name"""
    return f"accept: {answer.name}"


@mcp.tool()
async def slow() -> str:
    """Runs until it is canceled"""
    global canceled_calls
    try:
        await anyio.sleep(20)
    except anyio.get_cancelled_exc_class():
        canceled_calls += 1
        raise
    return "done"


@mcp.tool()
def canceled() -> str:
    """Number of canceled calls"""
    return str(canceled_calls)


@mcp.tool()
async def touch(ctx: Context) -> str:
    """Changes the counter"""
    await ctx.notify_resource_updated("test://counter")
    return "touched"


for page in range(1, 31):
    name = f"page_{page:02}"
    mcp.add_tool(lambda: "page", name=name, description=f"Tool {page}")


@mcp.resource("test://static", mime_type="text/plain")
def static() -> str:
    return "static text"


@mcp.resource("test://counter", mime_type="text/plain")
def counter() -> str:
    return "1"


@mcp.resource("test://items/{id}", mime_type="text/plain")
def item(id: str) -> str:
    return f"item {id}"


@mcp.prompt()
def greet(name: str) -> str:
    """Greets someone"""
    return f"Greet {name}"


@mcp.completion()
async def complete(ref, argument, context):
    return Completion(values=[name for name in NAMES if name.startswith(argument.value)])


mcp.run(transport="streamable-http", host="127.0.0.1", port=int(os.environ["PORT"]))
