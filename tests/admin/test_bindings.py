"""Bindings and their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_mq.models import Binding, Exchange, Queue
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

ADD = "/admin/django_mq/binding/add/"


def form_data(queue: Queue, **changes: Any) -> dict[str, Any]:
    return {"exchange": "shop", "exchange_type": "topic", "pattern": "order.*", "queue": queue.pk} | changes


def test_a_binding_is_created_edited_and_deleted(site: str, browse: Client, make: Make) -> None:
    queue = make.queue()

    browse.post(ADD, form_data(queue))
    binding = Binding.objects.get()
    browse.post(page_of(binding), form_data(queue, pattern="#"))
    edited = Binding.objects.get()
    listed = browse.get(list_of("binding"))
    browse.post(page_of(binding, "delete"), {"post": "yes"})

    assert (binding.pattern, edited.pattern) == ("order.*", "#")
    assert "orders" in listed.content.decode()
    assert not Binding.objects.exists()


@pytest.mark.django_db
def test_the_same_binding_is_not_made_twice(browse: Client, make: Make) -> None:
    queue = make.queue()

    browse.post(ADD, form_data(queue))
    response = browse.post(ADD, form_data(queue))

    assert "already bound" in str(response.context["errors"])
    assert Binding.objects.count() == 1


@pytest.mark.django_db
def test_an_exchange_has_one_type(browse: Client, make: Make) -> None:
    queue = make.queue()

    browse.post(ADD, form_data(queue))
    Exchange.objects.create(name="bare", exchange_type="fanout")
    response = browse.post(ADD, form_data(queue, exchange_type="direct", pattern="other"))
    bare = browse.post(ADD, form_data(queue, exchange="bare"))

    assert "“shop” is a topic exchange" in str(response.context["errors"])
    assert "“bare” is a fanout exchange" in str(bare.context["errors"])


@pytest.mark.django_db
def test_a_fanout_exchange_forgets_the_pattern(browse: Client, make: Make) -> None:
    browse.post(ADD, form_data(make.queue(), exchange_type="fanout"))

    assert Binding.objects.get().pattern == ""


@pytest.mark.django_db
def test_a_selector_that_cannot_be_parsed_is_refused_with_its_position(browse: Client, make: Make) -> None:
    response = browse.post(ADD, form_data(make.queue(), selector="region = "))

    assert "position" in str(response.context["errors"])
    assert not Binding.objects.exists()


@pytest.mark.django_db
def test_a_headers_exchange_has_selectors_and_no_pattern(browse: Client, make: Make) -> None:
    browse.post(ADD, form_data(make.queue(), exchange_type="headers", selector="region = 'eu'"))

    binding = Binding.objects.get()
    assert (binding.pattern, binding.selector) == ("", "region = 'eu'")
