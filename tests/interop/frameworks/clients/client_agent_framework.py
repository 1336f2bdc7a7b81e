"""Microsoft Agent Framework's `A2AAgent` as a client: what its user reads, streamed and whole, and after an answer."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver
from agent_framework.a2a import A2AAgent


async def agent(url):
    async with httpx.AsyncClient() as client:
        card = await A2ACardResolver(client, url).get_agent_card()
    return A2AAgent(name="remote", agent_card=card, url=url)


async def streamed(url, prompt):
    remote = await agent(url)
    stream = remote.run(prompt, stream=True)
    async for _ in stream:
        pass
    return (await stream.get_final_response()).text


async def whole(url, prompt):
    return (await (await agent(url)).run(prompt)).text


async def answered(url, prompt, answer):
    from agent_framework import Message

    remote = await agent(url)
    session = remote.create_session()
    asked = await remote.run(prompt, session=session)
    requests = list(getattr(asked, "user_input_requests", []) or [])
    if requests:
        content = requests[0].create_response(answer) if hasattr(requests[0], "create_response") else None
        reply = Message("user", [content]) if content is not None else answer
    else:
        reply = answer
    return {"question": asked.text or str(requests), "answer": (await remote.run(reply, session=session)).text}


async def main():
    team, question = sys.argv[1], sys.argv[2]
    seen = {"stream": await streamed(team, "go"), "blocking": await whole(team, "go")}
    seen["round_trip"] = await answered(question, "go", "late")
    print(json.dumps(seen))


asyncio.run(main())
