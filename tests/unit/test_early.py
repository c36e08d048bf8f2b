"""What a command ran the last time is loaded before it is asked for, and nothing else comes of it."""

import json
import os
import subprocess
import sys

from gadabout import early

COMMAND = """
import hashlib, json, sys
from gadabout import early
early.begin()
begun = len(early._begun)
import gadabout as gad, jax.numpy as jnp
gad.keep_programs()
from gadabout.driver import programs
lowered, lower = [], programs.Program.lower
programs.Program.lower = lambda *told, **named: lowered.append(told) or lower(*told, **named)
settings = {"num_warmup": 40, "num_draws": 60, "seed": int(sys.argv[1]), "progress": False}
tree = gad.sample(lambda x: -jnp.sum(x**4), jnp.zeros(3), sampler=gad.gad_mala(), **settings)
draws = hashlib.sha256(tree["posterior"]["x"].values.tobytes()).hexdigest()
print(json.dumps({"begun": begun, "left": len(early._begun), "lowered": len(lowered), "draws": draws}))
"""


def told_by(seed, folder):
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "ignore", "-c", COMMAND, str(seed)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_a_command_begins_with_the_programs_that_it_asked_for_when_it_ran_last(tmp_path):
    first, again, other = told_by(1, tmp_path), told_by(1, tmp_path), told_by(23, tmp_path)
    assert first["begun"] == 0 < first["lowered"]
    for later in (again, other):
        assert later["begun"] == first["lowered"]
        assert later["left"] == later["lowered"] == 0
    assert again["draws"] == first["draws"] != other["draws"]


def test_commands_that_differ_in_numbers_alone_have_one_list():
    words = ["gadabout", "sample", "german", "--draws", "1000"]
    assert early.command(words) == early.command([*words[:-1], "20"])
    assert early.command(words) != early.command([*words, "--float32"])
    assert early.command(["a", "b"]) != early.command(["ab"])


def test_lists_that_name_what_is_not_there_are_of_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(early, "_begun", {})
    monkeypatch.setattr(early, "_asked", [])
    monkeypatch.setattr(early.atexit, "register", lambda *told: None)
    monkeypatch.setattr(early, "folder_of", lambda: tmp_path)
    (tmp_path / "gadabout").mkdir()
    early.begin.cache_clear()
    early.begin()
    assert not early._begun
    told = tmp_path / "gadabout" / early.command(sys.argv)
    told.write_text("a-program-that-went\n")
    early.begin()  # once in a process
    assert not early._begun
    early.begin.cache_clear()
    early.begin()
    future = early.begun("a-program-that-went")
    assert future is not None
    assert isinstance(future.exception(), OSError)
    early._note(told)
    assert early.begun("a-program-that-went") is None  # each is handed out once
    early.begun("another")
    early._note(told)
    assert told.read_text().split() == ["a-program-that-went", "another"]
    early.begin.cache_clear()
