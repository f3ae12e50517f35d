"""A lease is certain for one deadline after it was confirmed."""

from __future__ import annotations

import pytest

from django_mq.engine.lease import is_certain


@pytest.mark.parametrize(("seconds", "certain"), [(0.0, True), (14.9, True), (15.0, False), (3600.0, False)])
def test_a_lease_is_certain_until_its_deadline_may_have_passed(seconds: float, certain: bool) -> None:
    assert is_certain(100.0, 100.0 + seconds, 15.0) is certain
