"""JAX's persistent cache: where the command line sets it, and where it leaves it alone."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pytest

import gadabout as gad
from gadabout import cache

NAMES = "jax_compilation_cache_dir", "jax_compilation_cache_max_size", "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The user's folder where there is none yet, and JAX without a folder; JAX's settings are put back."""
    before = {name: getattr(jax.config, name) for name in (*NAMES, "jax_enable_compilation_cache")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "cache" / "gadabout" / "jax"
    for name, value in before.items():
        jax.config.update(name, value)


def kept_in():
    return jax.config.jax_compilation_cache_dir


def test_a_command_keeps_programs_in_the_users_folder(folder, capsys):
    cache.keep_for_commands()
    assert kept_in() == str(folder)
    assert jax.config.jax_compilation_cache_max_size == cache.MOST_BYTES
    assert jax.config.jax_persistent_cache_min_compile_time_secs == cache.LEAST_SECONDS
    assert folder.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr() == ("", "")


def test_the_users_folder_is_in_the_home_where_no_variable_says_another(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache.user_folder() == tmp_path / ".cache" / "gadabout" / "jax"


def linked(folder, monkeypatch):
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(parents=True)
    folder.symlink_to(elsewhere)


def of_another_user(folder, monkeypatch):
    folder.mkdir(parents=True)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)


def written_by_the_group(folder, monkeypatch):
    folder.mkdir(parents=True)
    folder.chmod(0o770)


def written_by_others(folder, monkeypatch):
    folder.mkdir(parents=True)
    folder.chmod(0o702)


def no_folder(folder, monkeypatch):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")


REFUSED = {
    linked: "is a symbolic link",
    of_another_user: "belongs to another user",
    written_by_the_group: "others may write to",
    written_by_others: "others may write to",
    no_folder: "File exists",
}


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
@pytest.mark.parametrize("make", REFUSED)
def test_a_folder_that_is_not_the_users_own_alone_is_refused_in_one_line(make, folder, monkeypatch, capsys):
    make(folder, monkeypatch)
    cache.keep_for_commands()
    output, errors = capsys.readouterr()
    assert kept_in() is None
    assert (output, errors.count("\n")) == ("", 1)
    assert errors.startswith("gadabout: compiled programs are not kept: ")
    assert REFUSED[make] in errors
    assert str(folder) in errors


def test_a_folder_that_jax_has_stays(folder, tmp_path, capsys):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    cache.keep_for_commands()
    assert kept_in() == str(tmp_path / "own")
    assert not folder.exists()


def test_a_cache_that_is_switched_off_stays_off(folder):
    jax.config.update("jax_enable_compilation_cache", False)
    cache.keep_for_commands()
    assert kept_in() is None
    assert not folder.exists()


COMMAND = """
import jax
from gadabout import cache
cache.keep_for_commands()
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [("JAX_COMPILATION_CACHE_DIR", "own", "own"), ("JAX_ENABLE_COMPILATION_CACHE", "false", "None")],
)
def test_variables_of_jax_are_heeded(name, value, kept, tmp_path):
    own = {key: text for key, text in os.environ.items() if not key.startswith("JAX_")}
    variables = own | {"XDG_CACHE_HOME": str(tmp_path), name: value}
    run = [sys.executable, "-c", COMMAND]
    done = subprocess.run(run, env=variables, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [kept]
    assert not list(tmp_path.iterdir())


def test_the_library_sets_nothing(folder):
    gad.sample(lambda x: -0.5 * x @ x, jax.numpy.zeros(2), num_warmup=20, num_draws=10, progress=False)
    assert kept_in() is None


def test_keep_programs_is_deprecated_and_sets_jaxs_folder(folder, tmp_path):
    with pytest.warns(DeprecationWarning, match="jax_compilation_cache_dir") as told:
        found = gad.keep_programs(tmp_path / "own")
    assert found == tmp_path / "own"
    assert kept_in() == str(found)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert gad.keep_programs() == found  # the one that JAX has
        jax.config.update("jax_compilation_cache_dir", None)
        assert gad.keep_programs() == folder
    assert jax.config.jax_compilation_cache_max_size == -1
