"""Real workflows of the Microsoft Agent Framework, published to a gateway by the package of ``sdk/python``.

    workflows.py ws://GATEWAY/ws CASE:RUN…

Each case of ``sdk/python/tests/cases.py`` is published as the run of that name, of the agent ``flow``, in a thread of the
same name. Prints a line once all of them can be watched, and ends when all of them have ended; questions are answered by
whoever watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sys

SDK = pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"
sys.path[:0] = [str(SDK / "src"), str(SDK / "tests")]

from cases import CASES, QUESTION  # noqa: E402

from aqueduct_magentic import Forwarder, run_workflow  # noqa: E402


async def publish(url: str, case: str, run: str, begun: asyncio.Event) -> None:
    """Run a workflow, which may fail: the gateway is told of that too."""
    with contextlib.suppress(RuntimeError):
        async with Forwarder(url, agent="flow", run=run, thread=run) as gateway:

            async def note(event: object) -> None:
                while gateway.acknowledged == 0:
                    await asyncio.sleep(0.01)
                begun.set()

            await run_workflow(CASES[case].build(), QUESTION, gateway, gateway.answer, on_event=note)


async def main(url: str, runs: list[str]) -> None:
    """Publish all of them at once."""
    named = [run.split(":") for run in runs]
    begun = [asyncio.Event() for _ in named]
    tasks = [asyncio.create_task(publish(url, *run, event)) for run, event in zip(named, begun)]
    await asyncio.gather(*(event.wait() for event in begun))
    print("published", flush=True)
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
