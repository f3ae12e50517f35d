"""The parts of a store: what one leaves out is an error before any store is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_mq.stores.sql.browser import Browser
from django_mq.stores.sqlite.store import SQLiteStore
from django_mq.stores.subjects import browser


def test_a_part_that_leaves_out_a_method_of_its_subject_is_refused() -> None:
    class Half(Browser):
        browse = browser.Browser.browse

    with pytest.raises(TypeError, match=r"Half, the part 'browser' of a store, has no browse\."):
        replace(SQLiteStore.parts, browser=Half)
