"""A message has one address for life, and its page has all that happened to it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import reverse
from django.utils import timezone

from django_mq.api import publish
from django_mq.engine.decisions.verdict import Verdict
from django_mq.models import History, Message, TaskResult, UniqueKey
from django_mq.periodic.models import PeriodicMessage, PeriodicRun
from django_mq.stores.registry import shared_store
from tests.admin.browser import browsing, log_in
from tests.admin.conftest import list_of, page_of, run_action
from tests.stores.builders import claim, open_session, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from django.test import Client
    from pytest_django.live_server_helper import LiveServer

    from tests.admin.conftest import Make

TASK = {"lang": "py", "task": "shop.ship", "retries": 0, "timelimit": [None, None]}


def address(message_id: Any, **place: Any) -> str:
    found = reverse("admin:django_mq_message_life", args=[message_id])
    return f"{found}?{urlencode(place)}" if place else found


def told(response: Any) -> list[tuple[str, str]]:
    """Return the events of a page: where, and what."""
    assert response.status_code == 200
    return [(event.queue, event.words) for event in response.context["timeline"]]


def test_a_message_keeps_its_address_through_queues_and_acts_until_it_is_history(
    site: str, browse: Client, make: Make
) -> None:
    make.queue("first")
    make.queue("second")
    message_id = publish("first", {"order": 4711}, using=site)
    waiting = told(browse.get(address(message_id)))
    run_action(browse, "message", "move", [Message.objects.get()], target="second")
    moved = told(browse.get(address(message_id)))
    run_action(browse, "message", "prioritise", [Message.objects.get()], priority=9)
    store = shared_store(site)
    session = open_session(store)
    [claimed] = claim(store, session, "second")
    settle(store, session, claimed, Verdict.ACCEPT)

    over = browse.get(address(message_id))

    assert waiting == [("first", "published")]
    assert ("first", "moved to “second”") in moved
    acts = [words for queue, words in told(over) if not queue]
    assert [words.startswith(f"operator: {begin}") for words, begin in zip(acts, ("Moved", "Gave"), strict=True)]
    assert str(message_id) not in " ".join(acts)
    assert [each for each in told(over) if each[0]][-2:] == [("second", "claimed"), ("second", "accepted")]
    assert [words for _, words in told(over)].count("published") == 1
    assert [(place.queue, place.state) for place in over.context["places"]] == [
        ("second", "accepted"),
        ("first", "moved to another queue"),
    ]


def test_the_page_of_a_message_that_waits_says_what_its_queue_waits_for(
    site: str, browse: Client, login_with: Callable[..., Client], make: Make
) -> None:
    paused = make.queue("paused", paused=True, paused_reason="the provider is down")
    make.queue("lonely")
    unserved, stopped = (publish(name, {}, using=site) for name in ("lonely", "paused"))
    page = browse.get(address(unserved)).content.decode()
    assert "Its queue now:" in page
    assert "No worker takes from it." in page
    assert "the provider is down" in browse.get(address(stopped)).content.decode()
    dead = make.message(Message.Status.DEAD, paused)
    assert "Its queue now:" not in browse.get(address(dead.message_id)).content.decode()
    assert "Its queue now:" not in login_with("view_message").get(address(unserved)).content.decode()


def test_the_id_of_a_celery_task_leads_to_all_of_its_messages(site: str, browse: Client, make: Make) -> None:
    task, begin = str(uuid4()), timezone.now() - timedelta(minutes=5)
    early = {"published_at": begin, "ready_at": begin, "claimed_at": begin, "finished_at": begin}
    tried = make.history(correlation_id=task, headers=TASK, type="shop.ship", **early)
    again = make.message(correlation_id=task, headers=TASK, published_at=begin + timedelta(minutes=4))
    make.attempt(message_id=None, correlation_id=task, failed_at=begin + timedelta(minutes=1), error="Timeout")
    answer = make.message(correlation_id=task, headers={"for": "a task"})

    pages = [browse.get(address(each)) for each in (task, tried.message_id, again.message_id)]

    words = ["published", "claimed", "accepted", "attempt 1 failed: Timeout", "published again"]
    assert [[word for _, word in told(page)] for page in pages] == [words] * 3
    assert [page.context["original"] for page in pages] == [again] * 3
    # A message with the same correlation id that is no task has a life of its own.
    assert [word for _, word in told(browse.get(address(answer.message_id)))][:1] != ["published again"]


def test_what_is_left_of_a_message_still_has_its_address(site: str, browse: Client, make: Make) -> None:
    failed, task, done = make.attempt(error="Timeout"), str(uuid4()), uuid4()
    make.attempt(message_id=None, correlation_id=task, error="KeyError")
    now = timezone.now()
    given = {"message_id": done, "successful": True, "queue_name": "orders", "record": "{}"}
    TaskResult.objects.create(**given, finished_at=now, expires_at=now)

    assert told(browse.get(address(failed.message_id))) == [("orders", "attempt 1 failed: Timeout")]
    assert told(browse.get(address(task))) == [("orders", "attempt 1 failed: KeyError")]
    assert browse.get(address(done)).context["original"].pk == done
    unknown = browse.get(address(uuid4()))
    assert (unknown.status_code, "No message has this id" in unknown.content.decode()) == (404, True)


@pytest.mark.django_db
def test_a_page_shows_only_what_its_reader_may_view(login_with: Callable[..., Client], make: Make) -> None:
    message_id = uuid4()
    live = make.message(message_id=message_id)
    over = make.history(message_id=message_id, queue_name="first", outcome=7)
    client = login_with()

    def look(*codenames: str) -> Any:
        user = type(live)._meta.apps.get_model("auth", "User").objects.get(username="reader")
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return client.get(address(message_id))

    assert look("view_queue").status_code == 403
    assert [look(f"view_{each}").status_code for each in ("attempt", "taskresult")] == [404, 404]
    past = look("view_history")
    assert (past.context["original"], {queue for queue, _ in told(past)}) == (over, {"first"})
    now = look("view_message")
    assert (now.context["original"], {queue for queue, _ in told(now)}) == (live, {"orders"})
    assert {queue for queue, _ in told(look("view_message", "view_history"))} == {"first", "orders"}


def test_limits_periodic_messages_and_unique_keys_stand_in_the_timeline(
    site: str, login_with: Callable[..., Client], make: Make
) -> None:
    now = timezone.now()
    parked = make.message(state=Message.Status.PARKED, park_key="api:acme", parked_until=now + timedelta(hours=1))
    over = make.history(outcome=History.Outcome.LIMITED)
    nightly = PeriodicMessage.objects.using(site).create(name="nightly", created_at=now)
    given = {"periodic": nightly, "due_at": now, "message_id": parked.message_id, "queue_name": "orders"}
    PeriodicRun.objects.using(site).create(**given)
    key = {"digest": "d" * 64, "label": "sync", "until": "finished", "owner": str(parked.message_id)}
    UniqueKey.objects.using(site).create(**key, message_id=parked.message_id, first_at=now)
    client = login_with("view_message", "view_history", "view_periodicmessage")

    words = [word for _, word in told(client.get(address(parked.message_id)))]

    assert "parked for “api:acme” until then, at most" in words
    assert {"tick of “nightly”", "took the unique key “sync”"} <= set(words)
    assert ("orders", "over its limit") in told(client.get(address(over.message_id)))
    user = get_user_model().objects.get(username="reader")
    user.user_permissions.remove(Permission.objects.get(codename="view_periodicmessage"))
    assert "tick of “nightly”" not in client.get(address(parked.message_id)).content.decode()


def test_links_of_a_list_lead_to_the_address_and_on_to_the_next(site: str, browse: Client, make: Make) -> None:
    rows = [make.message(type="ship" if number % 2 else "pay") for number in range(6)]
    ships = rows[1::2]

    listed = browse.get(list_of("message"), {"type": "ship"})
    page = browse.get(
        address(ships[1].message_id, list="message", row=ships[1].pk, _changelist_filters="type=ship")
    )
    beside = page.context["neighbours"]

    assert str(ships[1].message_id) in listed.content.decode()
    assert [str(ships[2].message_id) in beside.newer, str(ships[0].message_id) in beside.older] == [True, True]
    assert beside.list == f"{list_of('message')}?type=ship"
    last = browse.get(beside.older).context["neighbours"]
    assert (str(ships[1].message_id) in last.newer, last.older) == (True, "")
    # A message that has left the list has those that stood beside it.
    Message.objects.filter(pk=ships[1].pk).delete()
    make.history(message_id=ships[1].message_id)
    left = browse.get(
        address(ships[1].message_id, list="message", row=ships[1].pk, _changelist_filters="type=ship")
    )
    assert left.context["neighbours"][1:] == beside[1:]


@pytest.mark.django_db
def test_any_list_in_an_address_does_no_harm(browse: Client, make: Make) -> None:
    message = make.message()
    lists = [("message", "order=delivery"), ("history", "p=7"), ("attempt", "body__regex=a"), ("queue", "")]
    lists += [("message", "q=x%00"), ("history", "before=zzz&p=-1"), ("x", "<script>")]
    for (model, filters), row in zip(lists * 2, [message.pk, 0, "x", 10**30] * 4, strict=False):
        page = browse.get(address(message.message_id, list=model, row=row, _changelist_filters=filters))
        assert (page.status_code, "cannot be filtered" in page.content.decode()) == (200, False)


def test_hostile_texts_of_a_life_are_escaped(site: str, browse: Client, make: Make) -> None:
    script = "<script>alert(1)</script>"
    message_id = uuid4()
    live = make.message(queue=make.queue(script), message_id=message_id, type=script, dead_reason=script)
    make.history(message_id=message_id, queue_name=script, outcome=7)
    make.attempt(message_id=message_id, queue_name=script, error=script, detail=script)

    for one in (address(message_id), page_of(live)):
        assert script not in browse.get(one).content.decode()


@pytest.mark.django_db(transaction=True)
def test_keys_lead_through_a_list_and_to_the_search_until_they_are_switched_off(
    live_server: LiveServer, operator: User, make: Make
) -> None:
    rows = [make.message(type=f"ship {number}") for number in range(3)]
    places = [f"**/message/{row.message_id}/?**" for row in rows]

    with browsing(live_server.url) as page:
        log_in(page)
        page.goto(list_of("message"))
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(places[2])
        page.keyboard.press("j")
        page.wait_for_url(places[1])
        page.keyboard.press("k")
        page.wait_for_url(places[2])
        page.keyboard.press("/")
        page.keyboard.type("ship 1")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search/?q=ship+1")
        page.locator(".mq-found a").click()
        page.wait_for_url(f"**/message/{rows[1].message_id}/")
        page.keyboard.press("?")
        page.get_by_role("dialog").get_by_role("checkbox").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") != "q"
