"""google-adk's `RemoteA2aAgent` as a client: what its user reads, with and without streaming, and after an answer."""

import asyncio
import json
import sys

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types


async def play(url, prompts, mode, use_legacy):
    remote = RemoteA2aAgent(
        name="remote", agent_card=f"{url}/.well-known/agent-card.json", use_legacy=use_legacy
    )
    sessions = InMemorySessionService()
    runner = Runner(app_name="clients", agent=remote, session_service=sessions)
    session = await sessions.create_session(app_name="clients", user_id="ada")
    turns = []
    for prompt in prompts:
        content = types.Content(role="user", parts=[types.Part(text=prompt)])
        words, errors = [], []
        events = runner.run_async(
            user_id="ada", session_id=session.id, new_message=content, run_config=RunConfig(streaming_mode=mode)
        )
        async for event in events:
            if event.error_message:
                errors.append(event.error_message)
            if event.partial:
                continue
            for part in (event.content.parts or []) if event.content else []:
                if part.text and not part.thought:
                    words.append(part.text)
        turns.append("".join(words) if not errors else {"errors": errors})
    return turns


async def main():
    team, question = sys.argv[1], sys.argv[2]
    seen = {}
    for legacy in (True, False):
        name = "legacy" if legacy else "new"
        seen[f"stream_{name}"] = (await play(team, ["go"], StreamingMode.SSE, legacy))[0]
        seen[f"blocking_{name}"] = (await play(team, ["go"], StreamingMode.NONE, legacy))[0]
    asked, answer = await play(question, ["go", "late"], StreamingMode.SSE, True)
    seen["round_trip"] = {"question": asked, "answer": answer}
    print(json.dumps(seen))


asyncio.run(main())
