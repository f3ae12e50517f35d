"""What is masked is on no page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from django_mq.diagnosis.messages.masking import HIDDEN, hide_keys
from tests.admin.conftest import list_of, page_of

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.admin.conftest import Make

pytestmark = pytest.mark.django_db

SECRET = "hush-4711"
BODIES = {
    "an object": json.dumps({"user": "ann", "card": {"Password": SECRET}}).encode(),
    "in an array": json.dumps([[1, "ann"], {"password": [SECRET, {"a": SECRET}]}, {}]).encode(),
    "a text": json.dumps(SECRET).encode(),
    "broken": b'{"password": "' + SECRET.encode(),
    "too deep": b'{"password": ' + b"[" * 50_000 + SECRET.encode() + b"]" * 50_000 + b"}",
    "bytes": b"\xff\x00" + SECRET.encode(),
}


def hide_payroll(value: Any, queue: str) -> Any:
    """Hide every word of one queue."""
    return HIDDEN if queue == "payroll" else value


def fail(value: Any, queue: str) -> Any:
    raise ZeroDivisionError


def mask(settings: Settings, rule: Any) -> None:
    settings.DJANGO_MQ = {**settings.DJANGO_MQ, "MASK": rule}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/x-yaml", ""])
def test_what_stands_under_a_masked_key_is_on_no_page(
    body: bytes, content_type: str, browse: Client, make: Make, settings: Settings
) -> None:
    mask(settings, ["password"])
    headers = {"password": SECRET, "kwargsrepr": f"{{'password': '{SECRET}'}}", "tenant": "north"}
    message = make.message(body=body, content_type=content_type, headers=headers)
    finished = make.history(body=body, headers=headers)

    for row in (message, finished):
        page = browse.get(page_of(row)).content.decode()
        assert SECRET not in page
        assert SECRET.encode().hex(" ") not in page
        assert "north" in page


def test_the_other_keys_stay(browse: Client, make: Make, settings: Settings) -> None:
    mask(settings, ["password"])
    message = make.message(body=BODIES["an object"])

    page = browse.get(page_of(message)).content.decode()

    assert "ann" in page
    assert HIDDEN in page


def test_a_function_decides_queue_by_queue(browse: Client, make: Make, settings: Settings) -> None:
    mask(settings, "tests.admin.test_masking.hide_payroll")
    body = json.dumps({"salary": SECRET}).encode()
    hidden, shown = make.message(queue=make.queue("payroll"), body=body), make.message(body=body)

    assert SECRET not in browse.get(page_of(hidden)).content.decode()
    assert SECRET in browse.get(page_of(shown)).content.decode()


@pytest.mark.parametrize("rule", [fail, "tests.admin.test_masking.fail", "tests.nowhere.at_all"])
def test_a_rule_that_fails_hides_everything(rule: Any, browse: Client, make: Make, settings: Settings) -> None:
    mask(settings, rule)
    message = make.message(body=BODIES["an object"], headers={"tenant": "north"})

    page = browse.get(page_of(message)).content.decode()

    assert "ann" not in page
    assert "north" not in page


def test_a_message_that_is_not_seen_whole_cannot_be_copied(browse: Client, make: Make, settings: Settings) -> None:
    mask(settings, ["password"])
    hidden, shown = make.message(body=BODIES["an object"]), make.message(body=b'{"user": "ann"}')

    refused = browse.get(f"{list_of('message')}add/", {"copy": hidden.pk})
    copied = browse.get(f"{list_of('message')}add/", {"copy": shown.pk})

    assert SECRET not in refused.content.decode()
    assert "This message cannot be copied here." in refused.content.decode()
    assert "ann" in copied.content.decode()


def test_hidden_headers_cannot_be_guessed_by_searching(browse: Client, make: Make, settings: Settings) -> None:
    message = make.message(headers={"password": SECRET})

    def found() -> list[int]:
        page = browse.get(list_of("message"), {"q": f"password:{SECRET}"})
        return [row.pk for row in page.context["cl"].result_list]

    assert found() == [message.pk]
    mask(settings, ["password"])
    assert found() == []


def hide_by_content(value: Any, queue: str) -> Any:
    """Hide the salary in one queue, and of people who are not public."""
    if not isinstance(value, dict) or (queue != "payroll" and value.get("public")):
        return value
    return {**value, "salary": HIDDEN}


def test_a_header_is_found_by_searching_only_where_it_may_be_seen(
    site: str, browse: Client, make: Make, settings: Settings
) -> None:
    shown = make.message(headers={"salary": SECRET, "public": True, "card": {"iban": SECRET}})
    make.message(headers={"salary": SECRET})
    make.message(headers={"salary": SECRET, "public": True}, queue=make.queue("payroll"))

    def found(term: str) -> list[int]:
        page = browse.get(list_of("message"), {"q": term})
        return [row.pk for row in page.context["cl"].result_list]

    mask(settings, "tests.admin.test_masking.hide_by_content")
    assert found(f"salary:{SECRET}") == [shown.pk]
    # A database writes a header that is an object with spaces, or without.
    nested = [f'card:{{"iban":{space}"{SECRET}"}}' for space in ("", " ")]
    assert shown.pk in [row for term in nested for row in found(term)]
    mask(settings, ["iban"])
    assert [row for term in nested for row in found(term)] == []


@pytest.mark.parametrize("lookup", ["headers__password__startswith", "headers__contains", "body__contains"])
@pytest.mark.parametrize("value", ["hush", '{"password": "hush-4711"}'])
def test_what_is_hidden_cannot_be_guessed_by_a_lookup_in_the_address(
    lookup: str, value: str, browse: Client, make: Make, settings: Settings
) -> None:
    mask(settings, ["password"])
    for headers in ({"password": SECRET}, {"password": "other"}):
        make.message(headers=headers, body=BODIES["an object"])

    page = browse.get(list_of("message"), {lookup: value}, follow=True)

    assert len(page.context["cl"].result_list) == 2
    assert "cannot be filtered" in page.content.decode()


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_the_command_hides_it_too(
    body: bytes, options: list[str], make: Make, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    mask(settings, ["password"])
    make.message(body=body, headers={"password": SECRET, "argsrepr": SECRET})

    call_command("mq_browse", "orders", *options)

    said = capsys.readouterr().out
    assert said
    assert SECRET not in said


def test_hiding_leaves_the_value_itself_alone() -> None:
    value = {"a": [{"b": 1}], "password": 2}

    assert hide_keys(value, frozenset({"b", "password"})) == {"a": [{"b": HIDDEN}], "password": HIDDEN}
    assert value == {"a": [{"b": 1}], "password": 2}
