"""What the package requires agrees with what it requires requires."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_kombu_alone_says_which_redis_clients_are_accepted() -> None:
    required = {wanted.name: wanted for wanted in map(Requirement, PROJECT["dependencies"])}

    assert required["kombu"].extras == {"redis"}
    assert "redis" not in required


def test_the_installed_redis_client_is_one_that_kombu_accepts() -> None:
    accepted = [wanted for wanted in map(Requirement, requires("kombu") or ()) if wanted.name == "redis"]

    assert accepted
    assert all(wanted.specifier.contains(version("redis")) for wanted in accepted)
