"""What a live worker runs has the language of its publisher and a plain body, in each kind of pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cryptography.fernet import Fernet
from django.utils import translation

from django_mq.api import publish
from django_mq.delivery.codecs import key_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.journeys.conftest import Sites

pytestmark = pytest.mark.once
SECRET = "4111 1111"
MIDDLEWARE = [
    "django_mq.middleware.locale.LocaleMiddleware",
    "django_mq.middleware.encryption.EncryptionMiddleware",
]
WATCHED = "tests.integrations.celery.live.watched"


@pytest.mark.parametrize("pool", [(), ("-P", "threads", "-c", "2")], ids=["prefork", "threads"])
def test_a_worker_decrypts_and_its_retries_are_encrypted_again(sites: Sites, pool: tuple[str, ...]) -> None:
    keys = {"2026": Fernet.generate_key().decode()}
    with sites("sqlite", MIDDLEWARE=MIDDLEWARE, ENCRYPTION_KEYS=keys, AUTO_DECLARE=True) as site:
        with site.worker(*pool, JOURNEY_APPS=WATCHED) as worker, translation.override("de"):
            site.send("stubborn", SECRET, 3600)
            publish("orders", "well", using=site.alias)
            site.wait_for_diary(1, name=SECRET)
            site.wait_for_diary(1, name="well")
            wait_until(lambda: site.states() == {"scheduled": 1}, lambda: f"the retry: {site.story()}")
            assert worker.stop() == 0

        (retry,) = site.rows()
        # The task ran in the language of its publisher, and published its retry in it.
        assert (retry.headers["language"], retry.headers["retries"]) == ("de", 1)
        assert key_of(bytes(retry.body)) == "2026"
        assert SECRET not in str(retry.headers)
