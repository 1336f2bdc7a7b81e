"""Microsoft Agent Framework's `AGUIChatClient`, which writes its requests in snake_case: what its user reads, streamed and whole,
and after replies in words and by `resume`.

    client_agent_framework_agui.py TEAM QUESTION ASKING

`TEAM` hides what its sub-agents do, `QUESTION` asks by a text, `ASKING` by an interrupt.
"""

import asyncio
import json
import sys

from agent_framework import Message
from agent_framework.ag_ui import AGUIChatClient


async def say(client, words, **options):
    return await client.get_response([Message("user", [words])], options=options)


async def streamed(url, words):
    async with AGUIChatClient(endpoint=url) as client:
        stream = client.get_response([Message("user", [words])], stream=True)
        pieces = [update.text async for update in stream]
        return {"pieces": "".join(pieces), "final": (await stream.get_final_response()).text}


async def whole(url, words):
    async with AGUIChatClient(endpoint=url) as client:
        return (await say(client, words)).text


async def answered_in_words(url, words, answer):
    async with AGUIChatClient(endpoint=url) as client:
        asked = await say(client, words)
        thread = asked.additional_properties["thread_id"]
        return {"question": asked.text, "answer": (await say(client, answer, metadata={"thread_id": thread})).text}


async def resumed(url, words, answer):
    async with AGUIChatClient(endpoint=url) as client:
        asked = await say(client, words)
        [interrupt] = asked.additional_properties["interrupts"]
        reply = {"interruptId": interrupt["id"], "status": "resolved", "payload": answer}
        metadata = {"thread_id": asked.additional_properties["thread_id"]}
        replied = await say(client, answer, metadata=metadata, resume=[reply])
        return {"question": interrupt["message"], "answer": replied.text}


async def main():
    team, question, asking = sys.argv[1:4]
    seen = {"stream": await streamed(team, "go"), "blocking": await whole(team, "go")}
    seen["in_words"] = await answered_in_words(question, "go", "late")
    seen["resumed"] = await resumed(asking, "go", "late")
    print(json.dumps(seen))


asyncio.run(main())
