"""What became of messages, and what failed on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_mq.models import Attempt, History
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")


def test_a_finished_message_shows_how_long_it_waited_and_ran(site: str, browse: Client, make: Make) -> None:
    row = make.history(headers={"tenant": "north"}, body=b'{"id": 7}')

    listed = browse.get(list_of("history")).content.decode()
    page = browse.get(page_of(row)).content.decode()

    assert "2 min" in listed
    assert "5 s" in listed
    assert "north" in page
    assert "&quot;id&quot;: 7" in page


def test_a_message_cancelled_before_any_claim_has_no_run_time(site: str, browse: Client, make: Make) -> None:
    make.history(claimed_at=None, outcome=History.Outcome.CANCELLED)

    response = browse.get(list_of("history"), {"outcome__exact": History.Outcome.CANCELLED.value})

    assert len(response.context["cl"].result_list) == 1


def test_a_body_that_was_not_kept_is_said_to_be_so(site: str, browse: Client, make: Make) -> None:
    page = browse.get(page_of(make.history())).content.decode()

    assert "keeps no bodies" in page


@pytest.mark.parametrize("model", [History, Attempt])
def test_the_lists_take_a_constant_number_of_queries_and_fetch_nothing_large(
    model: type[History] | type[Attempt], site: str, browse: Client, make: Make
) -> None:
    def statements() -> list[str]:
        with CaptureQueriesContext(connections[site]) as captured:
            browse.get(list_of(model._meta.model_name or ""))
        return [query["sql"] for query in captured.captured_queries]

    def fill(number: int) -> None:
        for _ in range(number):
            make.history()
            make.attempt()

    fill(1)
    few = statements()
    fill(10)
    many = statements()

    assert len(few) == len(many)
    assert not any(name in " ".join(many) for name in ('"body"', '"headers"', '"traceback"'))


def test_failed_attempts_are_found_by_either_id_and_show_their_traceback(
    site: str, browse: Client, make: Make
) -> None:
    attempt = make.attempt(correlation_id="task-1", traceback="Traceback (most recent call last)")
    make.attempt()

    by_task = browse.get(list_of("attempt"), {"q": "task-1"})
    by_id = browse.get(list_of("attempt"), {"q": str(attempt.message_id)})

    assert [row.pk for row in by_task.context["cl"].result_list] == [attempt.pk]
    assert [row.pk for row in by_id.context["cl"].result_list] == [attempt.pk]
    assert "Traceback (most" in browse.get(page_of(attempt)).content.decode()
