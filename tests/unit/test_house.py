"""Rules of the house that a program can check."""

import ast
from pathlib import Path

import pytest

from gadabout.files import PACKAGE

LONGEST = 60
"""lines of a function, its signature counted, its docstring not"""


def long_functions(source: str) -> list[tuple[str, int]]:
    """Functions of more than LONGEST lines, and their lines."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                docstring = node.body[0]
                assert docstring.end_lineno is not None
                lines -= docstring.end_lineno - docstring.lineno + 1
            found += [(node.name, lines)] if lines > LONGEST else []
    return found


def test_functions_have_at_most_60_lines():
    files = list(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    found = {str(file.relative_to(PACKAGE)): long_functions(file.read_text(encoding="utf-8")) for file in files}
    assert not {name: functions for name, functions in found.items() if functions}


@pytest.mark.parametrize("head", ["def f():", "class C:\n def f():", "async def f():"])
@pytest.mark.parametrize(("lines", "is_long"), [(59, False), (60, True)])
def test_a_long_function_is_found(head, lines, is_long):
    docstring = '\n  """One.\n\n  Two.\n  """'
    source = head + docstring + "\n  pass" * lines
    assert long_functions(source) == ([("f", lines + 1)] if is_long else [])


def private_patches(source: str) -> list[str]:
    """The names with an underscore that `monkeypatch` or `mock.patch` replace."""
    found = []
    for node in ast.walk(ast.parse(source)):
        called = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
        if isinstance(node, ast.Call) and called in ("setattr", "delattr", "patch", "object"):
            words = [word.value for word in node.args[:2] if isinstance(word, ast.Constant)]
            names = [word.rpartition(".")[2] for word in words if isinstance(word, str)]
            found += [name for name in names if name.startswith("_")]
    return found


def test_no_test_patches_a_private_name():
    files = list(Path(__file__).parents[1].rglob("*.py"))
    assert len(files) > 50
    found = {file.name: private_patches(file.read_text(encoding="utf-8")) for file in files}
    assert not {name: names for name, names in found.items() if names}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('monkeypatch.setattr(module, "_run", 1)', ["_run"]),
        ('monkeypatch.setattr("a.b._run", 1)', ["_run"]),
        ('mock.patch.object(module, "_run")', ["_run"]),
        ('with mock.patch("a.b._run"): pass', ["_run"]),
        ('monkeypatch.setattr(module, "run", 1)', []),
        ('monkeypatch.setattr("a._b.run", "_run", 1)', ["_run"]),
    ],
)
def test_a_private_patch_is_found(line, found):
    assert private_patches(line) == found
