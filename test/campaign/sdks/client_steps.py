"""Steps of the scenario of a Python client, and their lines of the transcript."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

STEP_SECONDS = 20
current_step = "start"


def plain(value: Any) -> Any:
    """A value of the SDK as JSON, with the protocol's names."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def failure(error: BaseException) -> dict[str, Any]:
    """Error of a call as the SDK reports it."""
    details = getattr(error, "error", None)
    if details is None:
        return {"error": {"type": type(error).__name__, "message": str(error)}}
    return {"error": plain(details)}


async def step(name: str, run: Callable[[], Awaitable[Any]]) -> Any:
    """Runs a step and prints what it returns, or its error. Returns what it returns."""
    global current_step
    current_step = name
    try:
        result = await asyncio.wait_for(run(), STEP_SECONDS)
        print(json.dumps({"step": name, "result": plain(result)}), flush=True)
        return result
    except Exception as error:
        print(json.dumps({"step": name, **failure(error)}), flush=True)


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs the client. An error of the transport ends it within a step."""
    try:
        asyncio.run(main())
        print('{"step":"close","result":null}', flush=True)
    except Exception as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        for name in {current_step: None, "close": None}:
            print(json.dumps({"step": name, **failure(error)}), flush=True)


async def restarted() -> None:
    """Prints that the server may be restarted, and waits until it has been."""
    global current_step
    current_step = "echo after a restart"
    print('{"step":"restart"}', flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def settled(read: Callable[[], Awaitable[Any]], expected: Callable[[Any], bool]) -> Any:
    """Reads a value until it is the expected one, at most for three seconds, and returns the last one."""
    deadline = time.monotonic() + 3
    while True:
        value = await read()
        if expected(value) or time.monotonic() >= deadline:
            return value
        await asyncio.sleep(0.05)
