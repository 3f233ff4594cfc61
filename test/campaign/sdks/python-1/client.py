"""The client of the SDK campaign on the Python SDK 1.x: runs the scenario with the server at the address given."""

import asyncio
import sys

from client_steps import failure, restarted, run, settled, step
from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client

questions: list[types.ElicitRequestParams] = []
updated: list[str] = []


async def elicited(context, params: types.ElicitRequestParams) -> types.ElicitResult:
    questions.append(params)
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def received(message) -> None:
    if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ResourceUpdatedNotification):
        updated.append(str(message.root.params.uri))


async def scenario(session: ClientSession) -> None:
    async def list_tools():
        tools, cursor = [], None
        while True:
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            tools += page.tools
            cursor = page.nextCursor
            if cursor is None:
                return tools

    async def with_progress():
        progress = []

        async def report(done, total, message):
            progress.append([done, total, message])

        result = await session.call_tool("progress", {"steps": 3}, progress_callback=report)
        return {"progress": progress, "result": result}

    async def ask():
        return {"result": await session.call_tool("ask"), "questions": questions}

    async def cancel():
        # The SDK sends no notification itself.
        request = session._request_id
        slow = asyncio.create_task(session.call_tool("slow"))
        await asyncio.sleep(1)
        params = types.CancelledNotificationParams(requestId=request, reason="enough")
        await session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        # It does not end the call either.
        await asyncio.wait([slow], timeout=1)
        outcome = "waiting" if not slow.done() else failure(slow.exception()) if slow.exception() else slow.result()
        slow.cancel()
        return outcome

    async def canceled():
        async def count():
            return (await session.call_tool("canceled")).content[0].text

        return await settled(count, lambda text: text == "1")

    async def subscribe():
        if not session.get_server_capabilities().resources.subscribe:
            return "unsupported"
        await session.subscribe_resource("test://counter")
        touched = await session.call_tool("touch")
        await settled(changes, lambda uris: len(uris) > 0)
        await session.unsubscribe_resource("test://counter")
        return {"touched": touched, "updated": updated}

    async def changes():
        return updated

    def call(name, **arguments):
        return lambda: session.call_tool(name, arguments)

    prompt = types.PromptReference(type="ref/prompt", name="greet")
    await step("initialize", session.initialize)
    await step("tools/list", list_tools)
    await step("echo", call("echo", text="héllo"))
    await step("add", call("add", a=1, b=2))
    await step("fail", call("fail"))
    await step("unknown tool", call("missing"))
    await step("progress", with_progress)
    await step("ask", ask)
    await step("cancel", cancel)
    await step("canceled calls", canceled)
    await step("resources/list", session.list_resources)
    await step("resources/templates/list", session.list_resource_templates)
    await step("resources/read", lambda: session.read_resource("test://static"))
    await step("resources/read of a template", lambda: session.read_resource("test://items/7"))
    await step("resources/read of an unknown resource", lambda: session.read_resource("test://missing"))
    await step("subscribe", subscribe)
    await step("prompts/list", session.list_prompts)
    await step("prompts/get", lambda: session.get_prompt("greet", {"name": "Ada"}))
    await step("completion", lambda: session.complete(prompt, {"name": "name", "value": "A"}))
    await restarted()
    await step("echo after a restart", call("echo", text="again"))


async def main() -> None:
    async with streamablehttp_client(sys.argv[1]) as (read, write, _):
        async with ClientSession(read, write, elicitation_callback=elicited, message_handler=received) as session:
            await scenario(session)


run(main)
