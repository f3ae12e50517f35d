"""Each act has a permission of its own: without it, it is neither offered nor done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

from django_mq.models import History, Message, Operation, Queue
from tests.admin.conftest import act, list_of, page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.admin.conftest import Make

SCHEDULED, READY, CLAIMED, DEAD = Message.Status


class Case(NamedTuple):
    """An act, the permission it takes, a state it applies to, and what it asks."""

    name: str
    permission: str
    state: Message.Status
    answers: dict[str, Any]


MESSAGE_ACTS = [
    Case("release", "release_message", CLAIMED, {"yes": "yes"}),
    Case("move", "move_message", READY, {"target": "elsewhere"}),
    Case("cancel", "cancel_message", READY, {"yes": "yes"}),
    Case("deliver_now", "deliver_message_now", SCHEDULED, {}),
    Case("reschedule", "reschedule_message", READY, {"deliver_at": "2131-05-31T18:00"}),
    Case("prioritise", "prioritise_message", READY, {"priority": 9}),
    Case("retry", "retry_message", DEAD, {}),
]
QUEUE_ACTS = [
    Case("pause", "pause_queue", READY, {"reason": "stock take"}),
    Case("purge", "purge_queue", DEAD, {"typed": "purge"}),
    Case("redrive", "retry_message", DEAD, {"yes": "yes"}),
    Case("delete_selected", "delete_queue", READY, {"force": "on"}),
]
on_messages = pytest.mark.parametrize("case", MESSAGE_ACTS, ids=[case.name for case in MESSAGE_ACTS])
on_queues = pytest.mark.parametrize("case", QUEUE_ACTS, ids=[case.name for case in QUEUE_ACTS])

pytestmark = pytest.mark.django_db


def picture() -> list[Any]:
    """Return all that an act could have changed."""
    messages = Message.objects.order_by("pk").values_list("pk", "queue__name", "state", "priority")
    return [*messages, *Queue.objects.values_list("name", "paused")]


def offered(client: Client, model: str) -> set[str]:
    """Return the actions that the list offers."""
    form = client.get(list_of(model)).context["action_form"]
    return {name for name, _ in form.fields["action"].choices if name} if form else set()


@on_messages
def test_without_its_permission_an_act_on_messages_is_not_there(
    case: Case, login_with: Callable[..., Client], make: Make
) -> None:
    message = make.message(case.state)
    make.queue("elsewhere")
    client = login_with("view_message", *(other.permission for other in MESSAGE_ACTS if other != case))
    before = picture()

    act(client, "message", case.name, [message], **case.answers)

    assert picture() == before
    assert case.name not in offered(client, "message")
    assert case.name not in dict(client.get(page_of(message)).context["acts"])


@on_messages
def test_its_permission_is_all_that_an_act_on_messages_takes(
    case: Case, login_with: Callable[..., Client], make: Make
) -> None:
    message = make.message(case.state)
    make.queue("elsewhere")
    client = login_with("view_message", case.permission)
    before = picture()
    offers = offered(client, "message"), set(dict(client.get(page_of(message)).context["acts"]))

    act(client, "message", case.name, [message], **case.answers)

    assert offers == ({case.name}, {case.name})
    assert picture() != before


@on_messages
def test_an_operation_on_all_that_match_takes_the_same_permission(
    case: Case, login_with: Callable[..., Client], make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_mq.admin.selection.LIMIT", 1)
    chosen = [make.message(case.state) for _ in range(3)]
    make.queue("elsewhere")
    answers = {"action": case.name, "select_across": "1", "_selected_action": [chosen[0].pk], "confirmed": "yes"}

    def ask(*permissions: str) -> list[str]:
        User.objects.all().delete()
        client = login_with("view_message", *permissions)
        client.post(list_of("message"), answers | case.answers, follow=True)
        return list(Operation.objects.values_list("act", flat=True))

    assert ask(*(other.permission for other in MESSAGE_ACTS if other != case)) == []
    assert ask(case.permission) == [case.name]
    assert LogEntry.objects.count() == 1


@on_queues
def test_without_its_permission_an_act_on_queues_is_not_there(
    case: Case, login_with: Callable[..., Client], make: Make
) -> None:
    queue = make.message(case.state).queue
    client = login_with("view_queue", "change_queue", *(other.permission for other in QUEUE_ACTS if other != case))
    before = picture()

    act(client, "queue", case.name, [queue], **case.answers)

    assert picture() == before
    assert case.name not in offered(client, "queue")


def test_a_reader_sees_a_queue_and_changes_nothing(login_with: Callable[..., Client], make: Make) -> None:
    queue = make.queue()
    client = login_with("view_queue")

    looked = client.get(page_of(queue))
    changed = client.post(page_of(queue), {"levels": 3})
    deleted = client.post(page_of(queue, "delete"), {"confirmed": "yes"})

    assert (looked.status_code, changed.status_code, deleted.status_code) == (200, 403, 403)
    assert looked.context["acts"] == []
    assert Queue.objects.exists()


def test_without_the_permission_to_view_there_is_nothing_to_see(
    login_with: Callable[..., Client], make: Make
) -> None:
    message = make.message()
    client = login_with("view_queue")

    assert client.get(list_of("message")).status_code == 403
    assert client.get(page_of(message)).status_code == 403


@pytest.mark.parametrize("model", ["workersession", "consumer", "history", "attempt", "archivebatch", "bulkjob"])
def test_nobody_adds_changes_or_deletes_what_is_only_looked_at(model: str, browse: Client) -> None:
    assert browse.get(f"/admin/django_mq/{model}/").status_code == 200
    assert browse.get(f"/admin/django_mq/{model}/add/").status_code == 403
    assert "delete_selected" not in offered(browse, model)


def test_a_finished_message_is_neither_changed_nor_deleted(browse: Client, make: Make) -> None:
    act(browse, "message", "cancel", [make.message()], yes="yes")
    row = History.objects.get()

    assert browse.post(page_of(row), {"type": "other"}).status_code == 403
    assert browse.post(page_of(row, "delete"), {"post": "yes"}).status_code == 403
