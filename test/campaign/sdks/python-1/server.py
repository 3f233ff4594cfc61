"""The server of the SDK campaign on the Python SDK 1.x, on the port of PORT."""

import os

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import Completion
from pydantic import BaseModel

mcp = FastMCP("python-1", instructions="A server for tests.", host="127.0.0.1", port=int(os.environ["PORT"]))
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


@mcp.tool()
async def ask(ctx: Context) -> str:
    """Asks for a name"""
    answer = await ctx.elicit("Your name?", Name)
    return f"{answer.action}: {answer.data.name if answer.action == 'accept' else None}"


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
    await ctx.session.send_resource_updated("test://counter")
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


mcp.run(transport="streamable-http")
