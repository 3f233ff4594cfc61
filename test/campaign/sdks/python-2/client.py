"""The client of the SDK campaign on the Python SDK 2.x: runs the scenario with the server at the address given."""

import asyncio
import sys

from client_steps import restarted, run, settled, step
from mcp import Client, types
from mcp.client.subscriptions import ResourceUpdated

questions: list[types.ElicitRequestParams] = []
updated: list[str] = []


async def elicited(context, params: types.ElicitRequestParams) -> types.ElicitResult:
    questions.append(params)
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def received(message) -> None:
    if isinstance(message, types.ResourceUpdatedNotification):
        updated.append(str(message.params.uri))


async def scenario(client: Client) -> None:
    async def initialized():
        return {"protocolVersion": client.protocol_version, "serverInfo": client.server_info}

    async def list_tools():
        tools, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return tools

    async def with_progress():
        progress = []

        async def report(done, total, message):
            progress.append([done, total, message])

        result = await client.call_tool("progress", {"steps": 3}, progress_callback=report)
        return {"progress": progress, "result": result}

    async def ask():
        return {"result": await client.call_tool("ask"), "questions": questions}

    async def cancel():
        slow = asyncio.create_task(client.call_tool("slow"))
        await asyncio.sleep(1)
        slow.cancel()

    async def canceled():
        async def count():
            return (await client.call_tool("canceled")).content[0].text

        return await settled(count, lambda text: text == "1")

    async def subscribe():
        if not client.server_capabilities.resources.subscribe:
            return "unsupported"
        if client.protocol_version != "2026-07-28":
            await client.subscribe_resource("test://counter")
            touched = await client.call_tool("touch")
            await settled(changes, lambda uris: len(uris) > 0)
            await client.unsubscribe_resource("test://counter")
            return {"touched": touched, "updated": updated}
        async with client.listen(resource_subscriptions=["test://counter"]) as subscription:
            touched = await client.call_tool("touch")
            async with asyncio.timeout(3):
                event = await anext(aiter(subscription))
            return {"touched": touched, "updated": [event.uri] if isinstance(event, ResourceUpdated) else []}

    async def changes():
        return updated

    def call(name, **arguments):
        return lambda: client.call_tool(name, arguments)

    prompt = types.PromptReference(type="ref/prompt", name="greet")
    await step("initialize", initialized)
    await step("tools/list", list_tools)
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
    await step("resources/read", lambda: client.read_resource("test://static"))
    await step("resources/read of a template", lambda: client.read_resource("test://items/7"))
    await step("resources/read of an unknown resource", lambda: client.read_resource("test://missing"))
    await step("subscribe", subscribe)
    await step("prompts/list", client.list_prompts)
    await step("prompts/get", lambda: client.get_prompt("greet", {"name": "Ada"}))
    await step("completion", lambda: client.complete(prompt, {"name": "name", "value": "A"}))
    await restarted()
    await step("echo after a restart", call("echo", text="again"))


async def main() -> None:
    async with Client(sys.argv[1], elicitation_callback=elicited, message_handler=received) as client:
        await scenario(client)


run(main)
