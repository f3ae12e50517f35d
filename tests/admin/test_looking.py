"""How far a list looks: never further than a page may wait, never pretending to have seen what it has not."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mq.admin.operations import runner
from django_mq.diagnosis.messages import criteria, finder, indexes, slices
from django_mq.models import Message, Operation
from tests.admin.conftest import list_of, run_action

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

SCHEDULED, READY, CLAIMED, DEAD, PARKED = Message.Status


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has two rows, and a page waits for one slice."""
    monkeypatch.setattr(slices, "SLICE", 2)
    monkeypatch.setattr(slices, "LARGEST_SLICE", 2)
    monkeypatch.setattr(slices, "PATIENCE", 0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has two rows, and a page waits for all of them."""
    monkeypatch.setattr(slices, "SLICE", 2)
    monkeypatch.setattr(slices, "LARGEST_SLICE", 2)
    monkeypatch.setattr(slices, "PATIENCE", 3600)


@pytest.fixture
def all_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """No state and no queue has so few messages that each is looked at."""
    monkeypatch.setattr(indexes, "FEW", 1)


def types(page: Any) -> list[str]:
    return [row.type for row in page.context["cl"].result_list]


def ask(client: Client, model: str = "message", **address: str) -> Any:
    page = client.get(list_of(model), address)
    assert page.status_code == 200
    return page


@pytest.mark.usefixtures("impatient")
def test_a_list_says_how_far_it_has_looked_and_looks_further_from_there(
    site: str, browse: Client, make: Make
) -> None:
    for name in ("first", "rare", "other", "rare", "other", "other", "last"):
        make.message(type=name)

    seen, pages, address = [], 0, f"{list_of('message')}?type=rare"
    while address:
        page = browse.get(address)
        seen += types(page)
        pages += 1
        further = page.context["cl"].further
        assert ("Look further" in page.content.decode()) == bool(further)
        address = f"{list_of('message')}{further}" if further else ""

    assert seen == ["rare", "rare"]
    assert pages == 4


@pytest.mark.usefixtures("patient")
def test_slices_put_together_are_the_whole_list(site: str, browse: Client, make: Make) -> None:
    made = [make.message(type="some" if number % 3 else "other", priority=number) for number in range(10)]

    page = ask(browse, type="some")

    assert [row.pk for row in page.context["cl"].result_list] == [
        row.pk for row in reversed(made) if row.type == "some"
    ]
    assert page.context["cl"].further == ""
    assert "Look further" not in page.content.decode()


@pytest.mark.usefixtures("impatient", "all_many")
@pytest.mark.parametrize(
    "address",
    [{"state": "3"}, {"queue": "old"}, {"state": "1", "queue": "old"}, {"state": "letters"}, {"state": "0"}],
    ids=str,
)
def test_a_state_and_a_queue_are_told_whole_wherever_they_are(
    site: str, browse: Client, make: Make, address: dict[str, str]
) -> None:
    old, new = make.queue("old"), make.queue("new")
    make.message(DEAD, old, type="dead")
    make.message(SCHEDULED, old, type="scheduled")
    make.message(READY, old, type="ready")
    for _ in range(5):
        make.message(READY, new, type="new")
    wanted = {
        str({"state": "3"}): ["dead"],
        str({"queue": "old"}): ["ready", "scheduled", "dead"],
        str({"state": "1", "queue": "old"}): ["ready"],
        str({"state": "letters"}): ["dead"],
        str({"state": "0"}): ["scheduled"],
    }

    page = ask(browse, **address)

    assert types(page) == wanted[str(address)]
    assert page.context["cl"].further == ""


@pytest.mark.usefixtures("impatient")
def test_of_few_messages_each_is_looked_at_however_old(site: str, browse: Client, make: Make) -> None:
    old, new = make.queue("old"), make.queue("new")
    session = make.session()
    make.message(CLAIMED, old, type="rare", session=session)
    for _ in range(5):
        make.message(READY, new, type="other")

    for address in ({"queue": "old"}, {"state": "2"}, {"worker": str(session.pk)}):
        page = ask(browse, type="rare", **address)
        assert types(page) == ["rare"]
        assert page.context["cl"].further == ""


@pytest.mark.usefixtures("patient")
def test_a_list_shows_what_its_filters_say_however_it_looks(
    site: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = make.queue("letters")
    given = [make.queue("a", dead_letter_queue=takes), make.queue("b"), takes]
    cases = product(range(2), Message.Status, given)
    made = [
        make.message(state, queue, type=str(number), dead_reason="boom" * (queue is takes and number))
        for number, state, queue in cases
    ]

    def fits(row: Message, state: str, queue: str, type_: str) -> bool:
        letter = row.state == DEAD or (row.state == READY and row.dead_reason == "boom")
        in_state = {"": True, "9": True, "letters": letter}.get(state, str(row.state) == state)
        return in_state and queue in {"", row.queue.name} and type_ in {"", row.type}

    for few, state, queue, type_ in product(
        (1, 5_000), ("", "0", "1", "2", "3", "letters", "9"), ("", "a", "letters", "none"), ("", "1")
    ):
        monkeypatch.setattr(indexes, "FEW", few)
        filters = criteria.known({"state": state, "queue": queue, "type": type_})
        rows = Message.objects.using(site).order_by("-id")
        for name, value in filters.items():
            rows = criteria.FILTERS[name](rows, value)
        look = finder.of_messages(rows, filters, 100, timezone.now())
        assert look.ids == [row.pk for row in reversed(made) if fits(row, state, queue, type_)], (few, filters)
        assert look.is_complete


def test_a_reason_is_found_in_a_dead_letter_queue_too(site: str, browse: Client, make: Make) -> None:
    takes = make.queue("letters")
    source = make.queue("orders", dead_letter_queue=takes)
    make.message(READY, takes, type="moved", dead_reason="KeyError")
    make.message(DEAD, source, type="in place", dead_reason="KeyError")
    make.message(DEAD, source, type="other", dead_reason="ValueError")

    page = ask(browse, reason="KeyError")

    assert types(page) == ["in place", "moved"]
    assert "?reason=ValueError" in page.content.decode()


@pytest.mark.usefixtures("impatient")
def test_only_the_newest_failed_attempts_are_looked_at_and_it_says_so(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "ATTEMPTS", 2)
    for name in ("old", "task", "new"):
        message = make.message(type=name, correlation_id=str(uuid4()))
        make.attempt(message_id=None, correlation_id=message.correlation_id, error="KeyError")

    page = ask(browse, error="KeyError")

    assert types(page) == ["new", "task"]
    assert "the newest failed attempts" in page.content.decode()
    assert types(ask(browse, error="KeyError", type="task")) == ["task"]


def test_filters_look_among_the_first_to_be_delivered_and_it_says_so(
    site: str, browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "LINE", 3)
    for level, name in ((9, "b"), (8, "a"), (7, "b"), (6, "b")):
        make.message(level=level, type=name, priority=level)
    line = {"queue": "orders", "state": "1", "order": "delivery"}

    part, whole = ask(browse, type="b", **line), ask(browse, **line)

    assert [row.level for row in part.context["cl"].result_list] == [9, 7]
    assert "first messages in delivery order" in part.content.decode()
    assert [row.level for row in whole.context["cl"].result_list] == [9, 8, 7, 6]
    assert "first messages in delivery order" not in whole.content.decode()


@pytest.mark.usefixtures("impatient")
def test_an_act_on_all_that_match_finds_those_that_the_page_had_no_patience_for(
    site: str, browse: Client, make: Make
) -> None:
    make.message(DEAD, type="rare")
    for _ in range(4):
        make.message(type="other")
    newest = make.message(DEAD, type="rare")
    chosen = {"action": "cancel", "_selected_action": [newest.pk], "select_across": "1"}
    address = f"{list_of('message')}?type=rare&priority=4"

    asked = browse.post(address, chosen)
    browse.post(address, {**chosen, "confirmed": "yes"})
    operation = Operation.objects.get()

    assert "1+ messages, in the background" in asked.content.decode()
    runner.run(operation.pk, using=site)
    assert not Message.objects.filter(type="rare").exists()
    assert Message.objects.count() == 4


def test_selected_messages_are_taken_wherever_they_stand(site: str, browse: Client, make: Make) -> None:
    oldest = make.message(type="rare")
    for _ in range(5):
        make.message(type="other")

    run_action(browse, "message", "cancel", [oldest], sure="yes")

    assert not Message.objects.filter(pk=oldest.pk).exists()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("model", "address"), [("history", {"outcome__exact": "2"}), ("attempt", {"error": "E"})])
def test_the_past_is_looked_through_as_patiently(
    site: str, browse: Client, make: Make, model: str, address: dict[str, str]
) -> None:
    rare = make.history(outcome=2) if model == "history" else make.attempt(error="E")
    for _ in range(3):
        make.history()
        make.attempt()

    first = ask(browse, model, **address).context["cl"]
    second = browse.get(f"{list_of(model)}{first.further}").context["cl"]

    assert list(first.result_list) == []
    assert [row.pk for row in second.result_list] == [rare.pk]
    assert second.further == ""


@pytest.mark.parametrize("before", ["", "x", "-1", "9" * 40, "' OR 1=1 --"])
def test_a_bound_that_is_none_bounds_nothing_and_breaks_nothing(
    site: str, browse: Client, make: Make, before: str
) -> None:
    make.message(type="some")

    assert types(ask(browse, type="some", before=before)) == ["some"]


@pytest.mark.usefixtures("patient")
def test_no_statement_of_a_list_reads_more_than_a_slice(site: str, browse: Client, make: Make) -> None:
    for number in range(7):
        make.message(type=f"type {number}")

    with CaptureQueriesContext(connections[site]) as captured:
        ask(browse, type="none")

    looks = [one["sql"] for one in captured.captured_queries if "'none'" in one["sql"]]
    assert len(looks) == 4
    assert all(" >= " in one for one in looks[:-1])


@pytest.mark.usefixtures("patient")
def test_a_question_looks_no_second_time_for_what_its_list_has_found(
    site: str, browse: Client, make: Make
) -> None:
    rare = make.message(type="rare")
    for _ in range(5):
        make.message(type="other")
    chosen = {"action": "move", "_selected_action": [rare.pk], "select_across": "1"}

    with CaptureQueriesContext(connections[site]) as captured:
        asked = browse.post(f"{list_of('message')}?type=rare", chosen)

    assert asked.status_code == 200
    looks = [
        one["sql"] for one in captured.captured_queries if "'rare'" in one["sql"] and " IN (" not in one["sql"]
    ]
    assert len(looks) == 3
