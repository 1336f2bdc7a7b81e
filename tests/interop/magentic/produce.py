"""Runs real workflows through the Python package and writes what a gateway would get.

    produce.py FOLDER

For each case of ``sdk/python/tests/cases.py``: ``<case>.jsonl``, the lines of the workflow, and
``<case>.expected.json``, what they must come to. The expectations are written from the scripts of the models, never
from the events:

| field | meaning |
|---|---|
| ``answer`` | ``[{"agent", "text"}]``: who says what on the answer channel of the last run, in order |
| ``answer_text`` | the same texts, joined by line feeds |
| ``texts`` | ``{agent: [text]}``: what each model said that the workflow shows, turn by turn, answers included |
| ``intermediate`` | ``{agent: [text]}``: what is shown as work and not as the answer, in all runs, by agent in order |
| ``tools`` | ``[{"agent", "call_id", "name", "arguments", "result"?, "error"?}]`` |
| ``outcomes`` | how each ``run()`` ended: ``success``, ``interrupted``, ``failed`` |
| ``outcome`` | the last of them |
| ``failure`` | what the exception said, if the run failed |
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys

SDK = pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"
sys.path[:0] = [str(SDK / "src"), str(SDK / "tests")]

from cases import CASES, QUESTION, Case  # noqa: E402

from aqueduct_magentic import run_workflow  # noqa: E402


async def produce(name: str, case: Case, folder: pathlib.Path) -> None:
    """Run one case and write its two files."""
    try:
        await run_workflow(case.build(), QUESTION, folder / f"{name}.jsonl", case.on_reply())
    except RuntimeError as error:
        if case.failure is None or str(error) != case.failure:
            raise
    else:
        if case.failure is not None:
            raise AssertionError(f"{name} did not fail")
    expected = json.dumps(case.expected(), ensure_ascii=False, indent=2)
    (folder / f"{name}.expected.json").write_text(f"{expected}\n", encoding="utf-8")


async def main(folder: pathlib.Path) -> None:
    """Write all cases, and nothing but them."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("*.jsonl"), *folder.glob("*.expected.json")]:
        old.unlink()
    for name, case in CASES.items():
        await produce(name, case, folder)
    print(f"magentic: {len(CASES)} workflows written")


if __name__ == "__main__":
    asyncio.run(main(pathlib.Path(sys.argv[1])))
