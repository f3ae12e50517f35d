"""The engine's scenarios through every store: each passes, or stands in the list of those left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.stores.registry import MEMORY, private_store
from tests.conftest import ALIASES
from tests.scenarios.loading import load, name_of
from tests.scenarios.running import run_scenario
from tests.scenarios.stored.environment import stored_environment
from tests.scenarios.stored.unfit import ALL, LEFT_OUT, reasons_of
from tests.scenarios.vocabularies import adapter_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.on("sqlite", once="postgresql")

DATA = Path(__file__).parents[1] / "scenarios" / "data"
FILES = sorted(DATA.glob("*.json"))
NAMES = {
    f"{path.stem}-{name_of(value, position)}"
    for path in FILES
    for position, value in enumerate(load(path).scenarios)
}


def stores() -> Iterator[Any]:
    yield pytest.param(MEMORY, id="memory")
    for alias, name in ALIASES.items():
        marks = [pytest.mark.django_db(databases=[alias], transaction=True)]
        yield pytest.param(alias, id=name, marks=marks if name == "sqlite" else [*marks, pytest.mark.once])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("alias", list(stores()))
def test_every_scenario_passes_but_those_left_out(alias: str, path: Path) -> None:
    store = private_store(alias)
    content = load(path)
    environment = stored_environment(store)
    adapter = adapter_for(content.vocabulary, environment)
    failures: dict[str, str] = {}
    for position, value in enumerate(content.scenarios):
        verdict = run_scenario(adapter, value)
        if not verdict.passed:
            failures[f"{path.stem}-{name_of(value, position)}"] = verdict.difference
    store.close()
    left_out = {name for name in reasons_of(environment.store) if name.startswith(f"{path.stem}-")}
    assert {name: words for name, words in failures.items() if name not in left_out} == {}
    assert left_out - failures.keys() == set(), "these pass, and need not be left out any more"


@pytest.mark.parametrize("store", ALL)
def test_a_store_leaves_out_each_for_one_reason(store: str) -> None:
    listed = [name for left in LEFT_OUT if store in left.stores for name in left.scenarios.split()]

    assert len(listed) == len(set(listed))
    assert set(listed) <= NAMES


@pytest.mark.once
def test_the_command_plays_them_on_a_store() -> None:
    command = [sys.executable, "-m", "tests.scenarios", "--store", "memory", *map(str, FILES)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=DATA.parents[2]
    )
    *_, last = done.stdout.splitlines()
    left_out = len(reasons_of("memory"))

    assert (done.returncode, done.stderr) == (0, "")
    assert last.startswith(
        f"{len(NAMES)} scenarios: {len(NAMES) - left_out} passed, 0 failed, {left_out} left out"
    )
