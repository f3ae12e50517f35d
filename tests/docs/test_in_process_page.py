"""The page on the engine: its examples print what it says, and its tables are complete."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from django_mq.engine.decisions import credit
from django_mq.engine.decisions.credit import Credit
from django_mq.engine.decisions.expiry import Lifetime
from django_mq.engine.decisions.limits import Limits, Overflow
from django_mq.engine.message import Message
from django_mq.engine.states import Fate
from django_mq.inprocess.broker import Broker
from django_mq.inprocess.consumers import credit as consumers_credit
from django_mq.inprocess.consumers import groups
from django_mq.inprocess.consumers.admission import Exclusivity
from django_mq.inprocess.consumers.consumer import Consumer
from django_mq.inprocess.consumers.groups import Groups
from django_mq.inprocess.entries import lists
from django_mq.inprocess.entries.contents import Statistics
from django_mq.inprocess.parts.control import Control
from django_mq.inprocess.queue import Queue
from django_mq.inprocess.rules import Rules
from tests.docs.pages import DOCS, blocks
from tests.docs.test_examples import execute

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PAGE = DOCS / "reference" / "in-process-broker.md"
TEXT = PAGE.read_text(encoding="utf-8")
#: Names that the tables of defaults use.
VOCABULARY = {"Lifetime": Lifetime, "Limits": Limits, "Overflow": Overflow, "Exclusivity": Exclusivity}


def section(heading: str) -> str:
    """The text under a heading, up to the next one of its rank or above."""
    rank = heading.index(" ")
    after = TEXT.split(f"\n{heading}\n")[1]
    return re.split(rf"\n#{{2,{rank}}} ", after)[0]


def table(heading: str) -> dict[str, str]:
    """What the rows under a heading name, to the second of three cells; a row may name several."""
    rows = [line.strip("|").split(" | ") for line in section(heading).splitlines() if line.startswith("| `")]
    return {name: cells[1].strip() if len(cells) > 2 else "" for cells in rows for name in names(cells[0])}


def names(cell: str) -> list[str]:
    """The names in a cell, without their parameters."""
    return re.findall(r"`(\w+)(?:\([^`]*\))?`", cell)


def default(cell: str) -> Any:
    return eval(cell.strip("`"), dict(VOCABULARY))


def public(owner: type) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


@pytest.fixture
def own_lists_are_forgotten() -> Iterator[None]:
    before = set(lists._factories)
    yield
    for kind in set(lists._factories) - before:
        del lists._factories[kind]


def examples() -> list[tuple[str, str]]:
    """Each example with what it prints."""
    shown = blocks(PAGE, "python", "text")
    return [(code.text, output.text) for code, output in zip(shown[::2], shown[1::2], strict=True)]


@pytest.mark.usefixtures("own_lists_are_forgotten")
@pytest.mark.parametrize(("code", "output"), examples(), ids=["begin", "list", "consumers", "work", "workers"])
def test_an_example_prints_what_the_page_says(code: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    execute(code)

    assert capsys.readouterr().out == output


def test_the_table_of_rules_has_every_rule_with_its_default() -> None:
    documented = {name: default(cell) for name, cell in table("## Rules").items()}
    rules = Rules()

    assert documented == {field.name: getattr(rules, field.name) for field in fields(Rules)}


def test_the_table_of_the_message_has_every_field_with_its_default() -> None:
    documented = {name: default(cell) for name, cell in table("## Message").items() if cell}
    message = Message(id="1")

    assert documented == {field.name: getattr(message, field.name) for field in fields(Message)[1:]}
    assert next(iter(table("## Message"))) == "id"


def test_the_table_of_consumers_has_every_option_with_its_default() -> None:
    parameters = inspect.signature(Consumer).parameters
    documented = {name: cell for name, cell in table("## Consumers").items() if name in parameters}

    assert list(documented) == list(parameters)
    assert {name: default(cell) for name, cell in documented.items() if cell} == {
        name: parameters[name].default for name, cell in documented.items() if cell
    }


def test_the_tables_of_calls_have_every_call() -> None:
    documented = set(table("## Calls")) - set(Fate.__members__)
    attributes = {"admission", "duplicate_ids", "statistics"}

    assert documented == public(Queue) | public(Control) | attributes
    assert attributes <= set(vars(Queue()))


def test_the_tables_of_calls_give_a_call_its_own_parameters() -> None:
    for name, written in re.findall(r"`(\w+)\(([^`]*)\)`", section("## Calls")):
        owner = Queue if hasattr(Queue, name) else Control
        parameters = list(inspect.signature(getattr(owner, name)).parameters)[1:]
        documented = re.findall(r"\w+", written)

        # The rare ones may be missing: they stand last.
        assert documented == parameters[: len(documented)], name


def test_the_table_of_the_broker_has_every_call() -> None:
    assert set(table("## Seven things to know")) == public(Broker)


@pytest.mark.parametrize(
    ("heading", "modules", "base"),
    [("### Credit", [credit, consumers_credit], Credit), ("### Groups", [groups], Groups)],
)
def test_a_table_of_classes_has_all_there_are(heading: str, modules: list[ModuleType], base: type) -> None:
    there = {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, base) and not inspect.isabstract(value)
    }

    assert set(table(heading)) == there


def test_the_other_tables_are_complete() -> None:
    assert set(table("## Order")) == set(lists._factories)
    assert set(table("## Full queues")) == set(Overflow.__members__)
    assert set(table("### Settling")) >= set(Fate.__members__)
    counters = set(Statistics.__slots__) | {"depth", "depth_bytes"}
    assert set(table("## Statistics")) == counters


FOLDERS = {"decisions"}


def imported_by_others() -> set[str]:
    """The modules and packages of the engine that the rest of the package imports."""
    found: set[str] = set()
    for path in (DOCS.parent / "django_mq").rglob("*.py"):
        if "engine" not in path.parts:
            used = r"^(?:    )?from django_mq\.engine\.(?:\w+\.)*(\w+) import (\w+)"
            modules = re.findall(used, path.read_text(), re.MULTILINE)
            found |= {name if module in FOLDERS else module for module, name in modules}
    return found


def test_the_page_says_which_modules_the_product_uses() -> None:
    section = TEXT.partition("## What uses the engine")[2].partition("\n## ")[0]
    used, _, unused = section.partition("Nothing in the product uses")
    idle = set(re.findall(r"`(\w+)`", unused.partition(".")[0]))

    assert imported_by_others() <= set(re.findall(r"`(\w+)`", used))
    assert not idle & imported_by_others()
