"""Compiles every Python snippet of the documentation, and looks up what it imports from the SDK.

Snippets are fragments: names that come from the text around them are not looked up.
"""

import ast
import importlib
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "sdk/python/src"))
FENCE = re.compile(r"^( *)```python[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def pages():
    """Lists the pages: the front page, the documentation, the SDKs and the examples."""
    yield root / "README.md"
    for folder in ("docs", "sdk", "examples"):
        yield from sorted(path for path in (root / folder).rglob("*.md") if "node_modules" not in path.parts)


def missing(tree):
    """Lists names that are imported from the SDK and that it does not have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aqueduct_magentic":
            module = importlib.import_module(node.module)
            yield from (alias.name for alias in node.names if not hasattr(module, alias.name))


def check(place, source):
    """Returns what is wrong with a snippet."""
    try:
        tree = compile(source, place, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return [f"{place}: line {error.lineno}: {error.msg}"]
    return [f"{place}: aqueduct_magentic has no {name}" for name in missing(tree)]


count, wrong = 0, []
for page in pages():
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        indent = len(found[1])
        source = "".join(row[indent:] if row.strip() else row for row in found[2].splitlines(keepends=True))
        count += 1
        wrong += check(f"{page.relative_to(root)}:{line}", source)
if "--self-test" in sys.argv:
    broken = check("broken", "from aqueduct_magentic import no_such_name\n") + check("broken", "def (\n")
    assert len(broken) == 2, broken
print("\n".join(wrong) or f"{count} Python snippets compile")
sys.exit(1 if wrong or not count else 0)
