"""Failures in groups: the list, the page of a group, its messages, and their redrive."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.utils import timezone

from django_mq.admin.operations import runner
from django_mq.diagnosis.messages import criteria
from django_mq.failures import staged
from django_mq.failures.groups import group_new, without_group
from django_mq.models import (
    Attempt,
    Deploy,
    FailureGroup,
    FailureTally,
    GroupedFailure,
    Message,
    Operation,
    StagedRedrive,
)
from django_mq.stores.registry import shared_store
from tests.admin.conftest import list_of, page_of, run_action, said
from tests.admin.test_plans import many, plan_of  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

DEAD = Message.Status.DEAD


def dies(make: Make, *errors: str, **values: Any) -> Message:
    """Write a dead letter that has failed with these errors, one after the other."""
    message = make.message(DEAD, **values)
    for number, error in enumerate(errors):
        make.attempt(
            message_id=message.message_id if not message.correlation_id else None,
            correlation_id=message.correlation_id,
            error=error,
            number=number + 1,
        )
    return message


def groups(site: str) -> dict[str, FailureGroup]:
    group_new(shared_store(site), 500)
    return {group.error: group for group in FailureGroup.objects.all()}


def listed(client: Client, **filters: Any) -> set[int]:
    return {row.pk for row in client.get(list_of("message"), filters).context["cl"].result_list}


def test_a_message_is_in_the_group_of_its_last_failure(site: str, browse: Client, make: Make) -> None:
    first = dies(make, "ValueError", "KeyError")
    second = dies(make, "KeyError", "ValueError")
    task = dies(make, "OSError", "ValueError", correlation_id="task 1")
    dies(make, "OSError")

    found = groups(site)

    assert listed(browse, failure=found["KeyError"].pk) == {first.pk}
    assert listed(browse, failure=found["ValueError"].pk, state="letters") == {second.pk, task.pk}
    rows = criteria.narrowed(Message.objects.using(site), {"failure": str(found["ValueError"].pk)}, timezone.now())
    assert {row.pk for row in rows} == {second.pk, task.pk}
    assert listed(browse, failure="x") == {row.pk for row in Message.objects.all()}
    assert listed(browse, failure="9" * 40) == set()


def test_a_redrive_of_a_group_sends_its_dead_letters_only(site: str, browse: Client, make: Make) -> None:
    mine = [dies(make, "ValueError") for _ in range(3)]
    other = dies(make, "KeyError")
    group = groups(site)["ValueError"]

    asked = run_action(browse, "failuregroup", "redrive", [group])
    answer = run_action(browse, "failuregroup", "redrive", [group], confirmed="yes")
    operation = Operation.objects.get()
    runner.run(operation.pk, using=site)

    assert "ValueError" in asked.content.decode()
    assert [f"operation #{operation.pk}" in sentence for sentence in said(answer)] == [True]
    assert {row.pk for row in Message.objects.filter(state=DEAD)} == {other.pk}
    assert Operation.objects.get().changed == len(mine)


def test_ten_of_a_group_go_first_and_the_page_of_the_redrive_says_how_it_goes(
    site: str, browse: Client, make: Make
) -> None:
    for _ in range(3):
        dies(make, "ValueError")
    group = groups(site)["ValueError"]

    run_action(browse, "failuregroup", "redrive", [group], first="2", per_minute="")
    redrive = StagedRedrive.objects.get()
    staged.steer(shared_store(site), 100)

    page = browse.get(page_of(redrive))
    assert (redrive.first, redrive.per_minute, redrive.user_name) == (2, None, "operator")
    assert "2 sent: 0 succeeded, 0 failed, 2 not finished" in page.content.decode()
    assert page.context["buttons"] == [("stop", "Stop")]
    assert f"Redrive #{redrive.pk}" in browse.get(page_of(group)).content.decode()
    assert Message.objects.filter(state=DEAD).count() == 1
    assert not Operation.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("reason", "about", "words"),
    [
        ("failed", "0196f3d2-7a10-7c4e-9d1b-52f0c1a4e001", "a message</a> has failed"),
        ("operator", "", "an operator has stopped it"),
        ("refused", "<b>ada</b> may not", "&lt;b&gt;ada"),
    ],
)
def test_a_redrive_says_why_it_has_stopped(
    browse: Client, make: Make, reason: str, about: str, words: str
) -> None:
    redrive = make.staged_redrive(status="stopped", reason=reason, about=about, removed=1, stayed=2)

    page = browse.get(page_of(redrive))

    assert words in page.content.decode()
    assert page.context["buttons"] == [("go_on", "Continue")]


@pytest.mark.django_db
def test_the_text_of_a_group_takes_the_permission_to_view_it(
    login_with: Callable[..., Client], make: Make
) -> None:
    redrive = make.staged_redrive()
    assert redrive.group
    client = login_with("view_stagedredrive", "view_message", "view_attempt")
    addresses = [page_of(redrive), list_of("stagedredrive")]
    addresses += [f"{list_of(name)}?failure={redrive.group.pk}" for name in ("message", "attempt")]
    for address in addresses:
        text = client.get(address).content.decode()
        assert f"#{redrive.group.pk}" in text
        assert str(redrive.group) not in text


@pytest.mark.django_db
@pytest.mark.parametrize(
    "answers", [{"first": "0"}, {"first": "501"}, {"per_minute": "-1"}, {"per_minute": "nan"}]
)
def test_a_redrive_that_makes_no_sense_is_asked_for_again(
    browse: Client, make: Make, answers: dict[str, str]
) -> None:
    page = run_action(browse, "failuregroup", "redrive", [make.failure_group()], **answers)

    assert page.context["form"].errors
    assert not StagedRedrive.objects.exists()


@pytest.mark.django_db
def test_the_list_says_what_fails_where_and_since_which_deploy(browse: Client, make: Make) -> None:
    make.failure_group("OldError", first_at=timezone.now() - timedelta(days=2))
    Deploy.objects.create(version="1.4.2", first_at=timezone.now() - timedelta(days=1))
    new = make.failure_group("NewError", types={f"t{number}": 5 - number for number in range(4)})
    FailureTally.objects.create(group=new, begins_at=timezone.now() - timedelta(minutes=20), failures=7)

    page = browse.get(list_of("failuregroup"))
    text = page.content.decode()

    assert [row.error for row in page.context["cl"].result_list] == ["NewError", "OldError"]
    assert text.count("new since 1.4.2") == 1
    assert "t0 (5), t1 (4), …" in text
    assert "7 in 24 hours" in text
    assert "since the deploy of 1.4.2" in text
    assert [
        row.error for row in browse.get(list_of("failuregroup"), {"new": "yes"}).context["cl"].result_list
    ] == ["NewError"]


@pytest.mark.django_db
def test_the_page_of_a_group_shows_tracebacks_to_those_who_may_see_them(
    login_with: Callable[..., Client], make: Make
) -> None:
    group = make.failure_group()
    attempt = make.attempt(traceback="in the kitchen", detail="order 7 is gone")
    GroupedFailure.objects.create(attempt_id=attempt.pk, group=group, failed_at=attempt.failed_at)

    reader = login_with("view_failuregroup")
    blind = reader.get(page_of(group)).content.decode()
    reader = login_with_more(reader, "view_attempt", "view_message")
    seeing = reader.get(page_of(group)).content.decode()

    assert "order &lt;n&gt; is gone" in blind
    assert "in the kitchen" not in blind
    assert "order 7" not in blind
    assert "failure=" not in blind
    assert "in the kitchen" in seeing
    assert f"failure={group.pk}" in seeing


def login_with_more(client: Client, *codenames: str) -> Client:
    from django.contrib.auth.models import Permission, User

    User.objects.get().user_permissions.add(*Permission.objects.filter(codename__in=codenames))
    return client


@pytest.mark.django_db
def test_hostile_texts_are_escaped_on_every_page(browse: Client, make: Make) -> None:
    evil = "<script>alert(1)</script>"
    names = {evil: 3}
    group = make.failure_group(evil, text=evil, place=evil, types=names, queues=names, workers=names)
    Deploy.objects.create(version=evil, first_at=timezone.now() - timedelta(days=1))

    for address in (list_of("failuregroup"), page_of(group), f"{list_of('message')}?failure={group.pk}"):
        assert evil not in browse.get(address).content.decode()


def test_the_messages_of_a_group_are_found_by_indexes(many: str) -> None:  # noqa: F811 - the fixture
    """The statements of an operation and of the page of a group."""
    now = timezone.now()
    group, other = (
        FailureGroup.objects.using(many).create(fingerprint=name, error=name, first_at=now, last_at=now)
        for name in ("E", "F")
    )
    Attempt.objects.using(many).bulk_create(
        Attempt(error="E", queue_name="q1", number=1, message_id=uuid4(), failed_at=now - timedelta(hours=number))
        for number in range(3000)
    )
    GroupedFailure.objects.using(many).bulk_create(
        GroupedFailure(attempt_id=number, group=other if number % 60 else group, failed_at=now, message_id=uuid4())
        for number in range(1, 3000)
    )

    with connections[many].cursor() as cursor:
        cursor.execute("ANALYZE")

    last = plan_of(criteria.last_failures(str(group.pk), many))
    ours = plan_of(criteria.by_failure(Message.objects.using(many), str(group.pk)).order_by())
    new = plan_of(without_group(timezone.now() - timedelta(minutes=5), many)[:500])

    assert "django_mq_grouped_group" in last
    assert "django_mq_attempt_message" in last
    assert "django_mq_attempt_corr" in last
    assert "django_mq_message_once" in ours or connections[many].vendor == "postgresql"
    assert "django_mq_attempt_pruning" in new
