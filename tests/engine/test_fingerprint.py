"""Which failures are alike."""

from __future__ import annotations

import time
import traceback

import pytest

from django_mq.engine.decisions.fingerprint import fingerprint, most_frequent, normalised, place_of

FRAMES = """Traceback (most recent call last):
  File "/srv/releases/{release}/shop/consumers.py", line {line}, in send_invoice
    customer = Customer.objects.get(pk=1)
  File "/srv/venv/lib/python3.12/site-packages/django/db/models/query.py", line 633, in get
    raise self.model.DoesNotExist(
shop.models.Customer.DoesNotExist: Customer matching query does not exist.
"""
ONE = FRAMES.format(release=7, line=31)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order 4711 failed after 3.25 s", "order <n> failed after <n> s"),
        ("no row 01a201cd-5077-70e7-a724-ae5470e6df0b", "no row <id>"),
        ("no row 01a201cd507770e7a724ae5470e6df0b", "no row <id>"),
        ("object at 0x7f3a9c", "object at <hex>"),
        ("commit deadbeef01 is bad", "commit <hex> is bad"),
        ("a.b+c@shop.example bounced", "<email> bounced"),
        ("GET https://api.example/v1?a=1 said no", "GET <url> said no"),
        ("'customer'", "'customer'"),
        ("'customer 17' is \"gone\"", '<text> is "gone"'),
        ("at 2026-11-29 03:00:01", "at <n> <n>"),
        ("\n  duplicate key\nDETAIL: Key (id)=(5)", "duplicate key"),
        ("  many   blanks\there ", "many blanks here"),
        ("it's not 'x'", "it's not 'x'"),
        ("", ""),
    ],
)
def test_values_do_not_count(text: str, expected: str) -> None:
    assert normalised(text) == expected


def test_the_place_is_the_innermost_frame_of_the_project() -> None:
    assert place_of(ONE) == "shop/consumers.py in send_invoice"


def test_without_frames_of_the_project_the_innermost_frame_is_the_place() -> None:
    installed = (
        'Traceback (most recent call last):\n  File "/usr/lib/python3.12/json/decoder.py", line 1, in decode\n'
    )

    assert place_of(installed) == "json/decoder.py in decode"
    assert place_of("killed by signal 9") == ""


def test_of_an_exception_with_a_cause_its_own_place_counts() -> None:
    own = 'Traceback (most recent call last):\n  File "shop/tasks.py", line 3, in later\n    raise Late()\n'

    assert place_of(f"{ONE}\nThe above exception was the direct cause of the following:\n\n{own}") == (
        "shop/tasks.py in later"
    )


def test_a_group_of_exceptions_has_a_place() -> None:
    def fail() -> None:
        raise ExceptionGroup("several", [ValueError(1)])

    try:
        fail()
    except ExceptionGroup:
        assert place_of(traceback.format_exc()).endswith("test_fingerprint.py in fail")


def test_a_deploy_that_moves_lines_and_folders_keeps_the_fingerprint() -> None:
    first = fingerprint("shop.DoesNotExist", "order 1", ONE)
    later = fingerprint("shop.DoesNotExist", "order 2", FRAMES.format(release=8, line=44))

    assert first == later
    assert len(first.key) == 32


@pytest.mark.parametrize(
    "other",
    [
        ("KeyError", "order 1", ONE),
        ("shop.DoesNotExist", "customer 1", ONE),
        ("shop.DoesNotExist", "order 1", ONE.replace("send_invoice", "send_receipt")),
    ],
)
def test_another_exception_text_or_place_is_another_fingerprint(other: tuple[str, str, str]) -> None:
    assert fingerprint(*other).key != fingerprint("shop.DoesNotExist", "order 1", ONE).key


@pytest.mark.parametrize(
    "piece", ["a", "1", "'", "@", "a@", "f1", "-", '"', "<", "\x00", "\ud800", "0x", "1-1:", "\n"]
)
def test_no_text_is_too_long_or_too_strange(piece: str) -> None:
    begun = time.process_time()

    found = fingerprint("E", piece * 100_000, f'Traceback (most recent call last):\n  File "{piece * 100_000}')

    assert len(found.text) <= 300
    assert len(found.place) <= 255
    assert time.process_time() - begun < 5


def test_the_most_frequent_names_are_kept() -> None:
    assert most_frequent({"a": 2, "b": 1}, ["c", "b", "b"], 2) == {"b": 3, "a": 2}
