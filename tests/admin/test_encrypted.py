"""Pages say that a body is encrypted, and show none of it; the process of the admin needs no key."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from django.utils import translation

from django_mq.delivery.codecs import ENCRYPTED, marked_with_key
from tests.admin.conftest import list_of, page_of
from tests.admin.test_task_results import RECORD, a_result

if TYPE_CHECKING:
    from django.test import Client

    from tests.admin.conftest import Make

STORED = marked_with_key("2026", b"\x80\x00 card-4111")
WORDS = {
    "en": ("encrypted", "encrypted with the key 2026"),
    "de": ("verschlüsselt", "verschlüsselt mit dem Schlüssel 2026"),
}


@pytest.mark.parametrize("language", WORDS)
def test_the_pages_of_messages_history_and_results_say_encrypted(
    site: str, browse: Client, make: Make, language: str
) -> None:
    short, long = WORDS[language]
    headers = {"task": "pay", "argsrepr": ENCRYPTED, "kwargsrepr": ENCRYPTED}
    message = make.message(body=STORED, content_encoding=ENCRYPTED, headers=headers)
    envelope = {"task": "shop.tasks.greet", "args": [], "kwargs": {}}
    result = a_result(
        json.dumps(
            RECORD
            | {"envelope": envelope, "value": None, "encoded": base64.b64encode(STORED).decode()}
            | {"content_encoding": ENCRYPTED}
        )
    )

    with translation.override(language):
        listed = browse.get(list_of("message"), headers={"accept-language": language}).content.decode()
        pages = [
            browse.get(page_of(row), headers={"accept-language": language}).content.decode()
            for row in (message, make.history(body=STORED), result)
        ]
        form = browse.get(list_of("message") + f"publish/?copy={message.pk}")

    assert short in listed
    assert "card-4111" not in listed
    for page in pages:
        assert long in page
        assert "card-4111" not in page
        assert STORED.hex(" ") not in page
    assert "card-4111" not in form.content.decode()


def test_the_list_of_results_still_names_the_task(site: str, browse: Client) -> None:
    envelope = {"task": "shop.tasks.greet", "args": [], "kwargs": {}}
    a_result(json.dumps({"envelope": envelope, "value": None, "encoded": "AA==", "content_encoding": ENCRYPTED}))

    assert "shop.<wbr>tasks.<wbr>greet" in browse.get(list_of("taskresult")).content.decode()
