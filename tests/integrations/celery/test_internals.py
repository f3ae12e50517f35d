"""The private names of Celery, Kombu and billiard that ``internals.py`` lists, in the installed versions."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from kombu.asynchronous.semaphore import LaxBoundedSemaphore
from kombu.utils.imports import symbol_by_name
from packaging.requirements import Requirement

from django_mq.integrations.celery import deliveries, internals, message, native, step, transport

HERE = Path(internals.__file__).parent
TABLE = re.compile(r"^(\w+(?:\.\w+)+) +(\w+) +(\w.+)$", re.MULTILINE)
RELEASE = re.compile(r"^(\d+\.\d+\.\d+) +(\d+\.\d+\.\d+) +(\d+\.\d+\.\d+)$", re.MULTILINE)
NAMES = [(of, name) for of, name, _ in TABLE.findall(internals.__doc__ or "")]
RELEASES = RELEASE.findall(internals.__doc__ or "")
INSTALLED = ", ".join(f"{name} {version(name)}" for name in ("celery", "kombu", "billiard"))


@pytest.fixture(scope="module")
def found() -> tuple[dict[str, bool], dict[str, bool]]:
    """Return which of the names a pool that has run a job has, and which of our readings of them hold."""
    command = [sys.executable, "-m", "tests.integrations.celery.internals_of_a_pool", json.dumps(NAMES)]
    # The child of the pool checks the models. Django 6.1 connects to every database for that.
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings.sqlite"}
    done = subprocess.run(command, cwd=HERE.parents[2], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{INSTALLED}: {done.stderr}"
    names, meanings = json.loads(done.stdout)
    return names, meanings


@pytest.mark.parametrize(("of", "name"), NAMES)
def test_a_private_name_is_still_there(found: tuple[dict[str, bool], dict[str, bool]], of: str, name: str) -> None:
    assert symbol_by_name(of) is not None
    assert found[0][f"{of} {name}"], f"{of} has no {name} in {INSTALLED}: see {internals.__name__}"


def test_the_names_mean_what_they_meant(found: tuple[dict[str, bool], dict[str, bool]]) -> None:
    assert [meaning for meaning, holds in found[1].items() if not holds] == [], INSTALLED


def test_what_waits_for_a_process_is_a_function_with_its_arguments() -> None:
    semaphore = LaxBoundedSemaphore(1)
    for number in (1, 2):
        semaphore.acquire(str, number)

    assert [item[:2] for item in internals.waiting_for_process(semaphore)] == [(str, (2,))]
    assert list(internals.waiting_for_process(None)) == []


def test_the_table_has_the_names_that_are_used() -> None:
    tree = ast.parse(Path(internals.__file__).read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)} | {"_pools"}
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    asked = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"_[a-z]\w+", node.value)
    }

    private = {name for name in used | asked if name.startswith("_") and not name.startswith("__")} - own
    assert private <= {name for _, name in NAMES}
    assert {name for _, name in NAMES} <= used | asked


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.name)
def test_no_other_file_reaches_into_others(path: Path) -> None:
    text = path.read_text()
    if path.name != "internals.py":
        assert "SLF001" not in text
        assert not re.search(r"""attr\(\w[\w.]*, ["']_[a-z]""", text)
        assert not re.search(r"(from|import) (celery|kombu|billiard)[\w.]*\._", text)


@pytest.mark.parametrize("module", [deliveries, message, native, step, transport])
def test_no_class_replaces_a_private_method_of_others(module: Any) -> None:
    ours = [
        each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__
    ]
    replaced = [
        f"{each.__name__}.{name}"
        for each in ours
        for name in vars(each)
        if re.match(r"_[a-z]", name)
        for other in each.__mro__
        if other.__module__.partition(".")[0] in {"celery", "kombu", "billiard"} and name in vars(other)
    ]

    assert replaced == []


def test_the_releases_of_the_table_span_what_the_package_allows() -> None:
    project = tomllib.loads((HERE.parents[2] / "pyproject.toml").read_text())["project"]
    (allowed,) = [each for each in map(Requirement, project["dependencies"]) if each.name == "celery"]
    minor = [".".join(celery.split(".")[:2]) for celery, _, _ in RELEASES]

    assert all(celery in allowed.specifier for celery, _, _ in RELEASES)
    assert f"celery{allowed.specifier}" == f"celery<5.{int(minor[-1].split('.')[1]) + 1},>={minor[0]}"
    assert ".".join(version("celery").split(".")[:2]) in minor
