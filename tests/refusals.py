"""What a refusal of a malformed call must be: the library's own, fitting, one line, and without a trace on the disk."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gadabout

PACKAGE = Path(gadabout.__file__).parent
LONGEST = 600


def refused(call: Callable[[], Any], *words: str, kinds: tuple[type[Exception], ...] = (TypeError, ValueError)) -> str:
    """The message with which the library itself refuses a call, in one line with all the words in it.

    An error that another library raised, or that Python raised in the middle of ours (`raise` is not what its line
    says), is no refusal.
    """
    with pytest.raises(Exception) as caught:  # noqa: PT011 of any kind, to be judged here
        call()
    error = caught.value
    message = str(error)
    told = f"{type(error).__name__}: {message}"
    assert isinstance(error, kinds), told
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert Path(last.filename).is_relative_to(PACKAGE), f"{told} ({last.filename}, line {last.lineno})"
    assert (last.line or "").startswith("raise "), f"{told} ({last.filename}, line {last.lineno}: {last.line})"
    assert "\n" not in message, told
    assert 20 <= len(message) <= LONGEST, told
    for word in words:
        assert word in message, f"{word!r} is not in: {told}"
    return message


@pytest.fixture
def nothing_is_written(tmp_path, monkeypatch):
    """The working folder is an empty one, and stays so."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []
