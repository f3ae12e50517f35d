"""The page of a queue says which groups wait, and which worker each belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_mq.diagnosis.state import groups
from django_mq.models import LimitKey, Message, Ownership
from tests.admin.conftest import page_of, run_action, said

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from django_mq.models import Queue
    from tests.admin.conftest import Make

pytestmark = pytest.mark.on("sqlite")

READY, CLAIMED = Message.Status.READY, Message.Status.CLAIMED


def shown(client: Client, queue: Queue) -> list[tuple[str | None, int, int, str]]:
    found = client.get(page_of(queue)).context["groups"]
    return [(one.key, one.ready, one.claimed, one.worker) for one, _ in found]


def test_groups_are_counted_and_their_workers_named(site: str, browse: Client, make: Make) -> None:
    queue, other = make.queue(grouping="assigned"), make.queue("other")
    owner, holder = make.session("owner@host"), make.session("holder@host")
    for key, number in {"<b>b</b>": 3, "a": 1}.items():
        for _ in range(number):
            make.message(READY, queue=queue, group_key=key)
    make.message(CLAIMED, queue=queue, group_key="a", session=holder)
    make.message(READY, queue=queue)
    make.message(READY, queue=other, group_key="elsewhere")
    Ownership.objects.create(queue_id=queue.pk, group_key="<b>b</b>", session_id=owner.pk)
    Ownership.objects.create(queue_id=queue.pk, group_key="idle", session_id=owner.pk)

    page = browse.get(page_of(queue)).content.decode()

    assert shown(browse, queue) == [
        ("<b>b</b>", 3, 0, "owner@host"),
        ("a", 1, 1, "holder@host"),
        ("idle", 0, 0, "owner@host"),
    ]
    assert "&lt;b&gt;b" in page
    assert page_of(owner) in page


def test_a_seat_in_the_queue_is_shown(site: str, browse: Client, make: Make) -> None:
    queue, worker = make.queue(max_consumers=1), make.session("worker@host")
    Ownership.objects.create(queue_id=queue.pk, session_id=worker.pk)

    assert shown(browse, queue) == [(None, 0, 0, "worker@host")]
    assert "a consumer slot of the queue" in browse.get(page_of(queue)).content.decode()


@pytest.mark.django_db
def test_an_owner_that_is_gone_is_no_link(browse: Client, make: Make) -> None:
    queue = make.queue(grouping="shared")
    Ownership.objects.create(queue_id=queue.pk, group_key="a", session_id=4711)

    assert shown(browse, queue) == [("a", 0, 0, "")]


@pytest.mark.django_db
def test_no_more_is_looked_at_or_shown_than_bounds_say(
    browse: Client, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make.queue(grouping="shared")
    for number in range(6):
        make.message(READY, queue=queue, group_key=f"g{number}", level=9 - number)
    monkeypatch.setattr(groups, "SAMPLE", 4)
    monkeypatch.setattr(groups, "MOST", 3)

    assert [key for key, *_ in shown(browse, queue)] == ["g0", "g1", "g2"]


@pytest.mark.django_db
def test_a_queue_without_groups_and_a_user_without_messages_see_none(
    login_with: Callable[..., Client], browse: Client, make: Make
) -> None:
    plain, grouped = make.queue("plain"), make.queue("grouped", grouping="shared")
    for queue in (plain, grouped):
        make.message(READY, queue=queue, group_key="a")

    assert (shown(browse, plain), len(shown(browse, grouped))) == ([], 1)
    assert shown(login_with("view_queue"), grouped) == []


def test_groups_are_freed_from_their_workers(site: str, browse: Client, make: Make) -> None:
    queue, other, owner = make.queue(grouping="balanced"), make.queue("other"), make.session("owner@host")
    for one, key in ((queue, "a"), (queue, "b"), (queue, None), (other, "a")):
        Ownership.objects.create(queue_id=one.pk, group_key=key, session_id=owner.pk)

    response = run_action(browse, "queue", "free_groups", [queue], go_on="yes")

    left = Ownership.objects.order_by("id").values_list("queue_id", "group_key")
    assert said(response) == ["“orders”: 2 groups are free."]
    assert list(left) == [(queue.pk, None), (other.pk, "a")]


def test_the_button_to_free_groups_is_there_for_queues_whose_groups_have_owners(
    site: str, browse: Client, make: Make
) -> None:
    pages = {name: page_of(make.queue(name, grouping=name)) for name in ("assigned", "balanced", "shared", "none")}

    offered = {name for name, page in pages.items() if "Free groups" in browse.get(page).content.decode()}

    assert offered == {"assigned", "balanced"}


def test_keys_over_their_limits_are_shown_with_what_is_parked(site: str, browse: Client, make: Make) -> None:
    queue = make.queue()
    place = {"queue_name": queue.name, "free_at": 0.0, "seen_at": 0.0}
    LimitKey.objects.create(**place, limit_name="api", limited_key="<b>17</b>", waiting_until=2e9)
    LimitKey.objects.create(**place, limit_name="idle", limited_key="18")
    assert "Keys over their limits" not in browse.get(page_of(queue)).content.decode()
    for _ in range(3):
        make.message(Message.Status.PARKED, queue=queue, park_key="api:<b>17</b>")

    answer = browse.get(page_of(queue))

    [waiting] = answer.context["waiting_keys"]
    assert (waiting.limit, waiting.parked, waiting.next_at.year) == ("api", 3, 2033)
    assert "&lt;b&gt;17&lt;/b&gt;" in answer.content.decode()
