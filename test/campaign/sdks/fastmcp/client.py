"""The client of the SDK campaign on FastMCP: runs the scenario with the server at the address given."""

import asyncio
import sys

import mcp_types as types
from client_steps import restarted, run, settled, step
from fastmcp import Client

questions: list[types.ElicitRequestParams] = []


async def elicited(message, response_type, params: types.ElicitRequestParams, context):
    questions.append(params)
    return {"name": "Ada"}


async def scenario(client: Client) -> None:
    async def initialized():
        return {"protocolVersion": client.protocol_version, "serverInfo": client.server_info}

    async def with_progress():
        progress = []

        async def report(done, total, message):
            progress.append([done, total, message])

        result = await client.call_tool_mcp("progress", {"steps": 3}, progress_handler=report)
        return {"progress": progress, "result": result}

    async def ask():
        return {"result": await client.call_tool_mcp("ask", {}), "questions": questions}

    async def cancel():
        slow = asyncio.create_task(client.call_tool_mcp("slow", {}))
        await asyncio.sleep(1)
        slow.cancel()

    async def canceled():
        async def count():
            return (await client.call_tool_mcp("canceled", {})).content[0].text

        return await settled(count, lambda text: text == "1")

    async def unsupported():
        return "unsupported"

    def call(name, **arguments):
        return lambda: client.call_tool_mcp(name, arguments)

    prompt = types.PromptReference(type="ref/prompt", name="greet")
    await step("initialize", initialized)
    await step("tools/list", client.list_tools)
    await step("echo", call("echo", text="héllo"))
    await step("add", call("add", a=1, b=2))
    await step("fail", call("fail"))
    await step("unknown tool", call("missing"))
    await step("progress", with_progress)
    await step("ask", ask)
    await step("cancel", cancel)
    await step("canceled calls", canceled)
    await step("resources/list", client.list_resources)
    await step("resources/templates/list", client.list_resource_templates)
    await step("resources/read", lambda: client.read_resource_mcp("test://static"))
    await step("resources/read of a template", lambda: client.read_resource_mcp("test://items/7"))
    await step("resources/read of an unknown resource", lambda: client.read_resource_mcp("test://missing"))
    await step("subscribe", unsupported)
    await step("prompts/list", client.list_prompts)
    await step("prompts/get", lambda: client.get_prompt_mcp("greet", {"name": "Ada"}))
    await step("completion", lambda: client.complete_mcp(prompt, {"name": "name", "value": "A"}))
    await restarted()
    await step("echo after a restart", call("echo", text="again"))


async def main() -> None:
    async with Client(sys.argv[1], elicitation_handler=elicited) as client:
        await scenario(client)


run(main)
