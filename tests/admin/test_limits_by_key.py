"""Limits by key: on the page of their queue, and their exceptions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from django_mq import conf
from django_mq.limits import concurrency, declared, rate_limit, throttle
from django_mq.models import LimitException, LimitKey, Message, Queue
from django_mq.stores.registry import shared_store
from tests.admin.conftest import list_of, page_of
from tests.stores.builders import declare

if TYPE_CHECKING:
    from django.test import Client

    from django_mq.seams.tiles import Tile

OVERVIEW = "admin:django_mq_queue_overview"


@pytest.mark.django_db
def test_the_page_of_a_queue_shows_its_limits(browse: Client, request: pytest.FixtureRequest) -> None:
    declare(shared_store("default"), "orders")
    request.addfinalizer(lambda: conf.remove_extension(declared.NAME))
    request.addfinalizer(lambda: declared.forget("orders"))
    throttle("orders", amount=10, seconds=60, burst=2, key="header:<b>")
    rate_limit("orders", amount=0.5, seconds=1, name="all", type="mail")
    concurrency("orders", 3, key="group", name="slots")

    page = browse.get(page_of(Queue.objects.get(name="orders"))).content.decode()

    for line in (
        "default: 10 begin in 60 s, at most 2 at once; for each value of header:&lt;b&gt;; what is over it waits",
        "all: 0.5 begin in 1 s, at most 1 at once; of the type mail; what is over it is removed",
        "slots: 3 run at once; for each value of group; what is over it waits",
    ):
        assert line in page


@pytest.mark.django_db
def test_an_exception_may_be_for_the_whole_queue_and_says_what_it_allows(browse: Client) -> None:
    given = {"queue_name": "orders", "limit_name": "all", "limited_key": "", "amount": 5, "seconds": 2}
    new = list_of("limitexception") + "add/"

    assert browse.post(new, given).status_code == 302
    assert browse.post(new, given | {"limited_key": "x", "amount": "-1"}).status_code == 200
    page = browse.get(list_of("limitexception")).content.decode()

    assert LimitException.objects.get().limited_key == ""
    assert "the whole queue" in page
    assert "5 begin in 2 s, at most 1 at once" in page


@pytest.mark.django_db
def test_a_tile_counts_the_keys_that_wait_and_leads_to_their_messages(
    browse: Client, request: pytest.FixtureRequest
) -> None:
    for name in ("mails", "orders", "resting"):
        declare(shared_store("default"), name)
        request.addfinalizer(partial(declared.forget, name))
        throttle(name, amount=10, seconds=60, key="header:shop")
    request.addfinalizer(lambda: conf.remove_extension(declared.NAME))
    tile = waiting_tile(browse)
    assert (tile.value, tile.note) == (0, "no key waits")

    for queue, number, until in (("mails", 1, 60.0), ("orders", 3, 0.0), ("orders", 1, None), ("gone", 9, 60.0)):
        for each in range(number):
            given = {"limit_name": "default", "limited_key": f"{until} {each}", "free_at": 0, "seen_at": 0}
            LimitKey.objects.create(queue_name=queue, waiting_until=until, **given)
    tile = waiting_tile(browse)

    assert (tile.value, tile.note) == (4, "orders")
    state = str(Message.Status.PARKED.value)
    assert f'href="{list_of("message")}?state={state}"' in browse.get(reverse(OVERVIEW)).content.decode()


def waiting_tile(client: Client) -> Tile:
    tiles = client.get(reverse(OVERVIEW)).context["tiles"]
    [found] = [each.tile for each in tiles if each.tile.name == "limits_waiting"]
    tile: Tile = found
    return tile
