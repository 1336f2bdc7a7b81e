"""strands' `A2AAgent` as a client: what its user reads, streamed and whole, and after an answer."""

import asyncio
import json
import sys

from strands.agent.a2a_agent import A2AAgent


def words(result):
    return "".join(part.get("text", "") for part in result.message["content"])


async def streamed(url, prompt):
    last = None
    async for event in A2AAgent(endpoint=url).stream_async(prompt):
        last = event.get("result", last)
    return words(last)


async def main():
    team, question = sys.argv[1], sys.argv[2]
    seen = {"stream": await streamed(team, "go"), "blocking": words(await A2AAgent(endpoint=team).invoke_async("go"))}
    remote = A2AAgent(endpoint=question)
    seen["round_trip"] = {"question": words(await remote.invoke_async("go"))}
    print(json.dumps(seen))


asyncio.run(main())
