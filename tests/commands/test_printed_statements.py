"""mq_doctor --sql: each statement of the database in use can be read with its plan, and none of them runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command

from django_mq.diagnosis.doctor.statements import FORMS, printed
from django_mq.errors import UnknownStatement
from django_mq.models import History, Message, Queue
from django_mq.stores.registry import shared_store
from django_mq.stores.sql.database import names_of
from tests.stores.builders import declare, open_session, publish

if TYPE_CHECKING:
    from tests.commands.conftest import Run

#: The claim of a plain queue, and the index that its plan must name.
READY = "django_mq_message_ready"
ALIASES = [
    pytest.param(alias, marks=pytest.mark.django_db(databases=[alias], transaction=True), id=alias)
    for alias in ("default", "postgresql", "mariadb")
]
every_database = pytest.mark.parametrize("alias", ALIASES)


@pytest.fixture
def store(alias: str) -> Any:
    """A store with a queue, a session and two messages."""
    store: Any = shared_store(alias)
    declare(store)
    open_session(store)
    publish(store)
    publish(store)
    return store


def rows(alias: str) -> list[Any]:
    return [list(model.objects.using(alias).order_by("pk").values()) for model in (Queue, Message, History)]


def steps(plan: list[str]) -> list[str]:
    """Return a plan without its estimates: the database may have counted the rows again meanwhile."""
    return [line.partition("(cost=")[0].strip() for line in plan]


@pytest.mark.on("sqlite", "mariadb", once="postgresql")
@every_database
def test_no_statement_runs_when_it_is_printed(store: Any, alias: str) -> None:
    package, before = store.database.package, rows(alias)
    names = names_of(package)
    claims = [name for name in names if name.startswith("claim")]

    found = {name: printed(alias, name) for name in [*names, *(f"{name}:{':'.join(FORMS)}" for name in claims)]}

    assert rows(alias) == before
    assert READY in "\n".join(found["claim"].plan)
    unplanned = [name for name, each in found.items() if not each.plan]
    assert all(found[name].text.split()[0].isupper() for name in unplanned)
    assert not {"append", "claim", "facts", "settle_finished"}.intersection(unplanned)


@every_database
def test_the_command_prints_heading_text_and_plan(store: Any, alias: str, run: Run) -> None:
    text = run("mq_doctor", "--sql", "facts", "--database", alias)

    assert "-- Locks: nothing; the claim lock is held." in text
    assert "FROM django_mq_queue q" in text
    assert READY in text.split("d.queue_id", 1)[1]
    answer = json.loads(run("mq_doctor", "--sql", "facts", "--database", alias, "--json"))
    assert answer["name"] == "facts"
    assert steps(answer["plan"]) == steps(text.splitlines()[-len(answer["plan"]) :])


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["", "no_such", "claim:no_such"])
def test_another_name_is_refused_with_all_names(name: str) -> None:
    with pytest.raises(UnknownStatement, match=r"The statements are .*append_many.*NAME:wanted"):
        printed("default", name)
    with pytest.raises(CommandError, match="The statements are"):
        call_command("mq_doctor", "--sql", *filter(None, [name]))


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_form_of_a_claim_is_another_text() -> None:
    whole, alone = (printed("postgresql", name).text for name in ("claim", "claim:alone"))
    wanted = printed("postgresql", "claim_across:wanted").text

    assert ("INTO django_mq_history" in whole, "INTO django_mq_history" in alone) == (True, False)
    assert "AND true" in wanted
