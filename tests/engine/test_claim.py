"""How many bytes a claim may bring, and what a failed one makes of that."""

from __future__ import annotations

from django_mq.engine.decisions.claim import MOST_BYTES, ClaimBytes, fitting

TIMEOUT_SECONDS = 30.0


def test_as_many_fit_as_the_bytes_allow_and_the_first_in_any_case() -> None:
    lines = [[(False, size) for size in sizes] for sizes in ([], [4, 6, 1], [11, 0], [0, 10, 0], [5, 6])]
    assert [fitting(line, 1, 10) for line in lines] == [0, 2, 1, 3, 1]


def test_a_suspect_travels_alone_and_only_into_a_free_slot() -> None:
    ready, suspect = (False, 4), (True, 4)
    assert [fitting(line, 1, 10) for line in ([suspect, ready], [ready, suspect, ready])] == [1, 1]
    assert [fitting([suspect, ready], slots, 10) for slots in (0, -1, 2)] == [0, 0, 1]
    assert fitting([(True, 11)], 1, 10) == 1


def test_a_claim_that_fails_again_and_again_ends_at_one_message() -> None:
    claims = ClaimBytes()

    for _ in range(20):
        claims.failed()

    assert (claims.amount, fitting([(False, 1000)] * 2, 1, claims.amount)) == (1, 1)


def test_the_bound_grows_again_with_claims_that_fill_it_quickly() -> None:
    claims = ClaimBytes()
    claims.failed()
    claims.failed()

    for seconds, part in ((20.0, 1), (1.0, 4)):  # slow, or too small to tell
        claims.brought(claims.amount // part, seconds, TIMEOUT_SECONDS)
    assert claims.amount == MOST_BYTES // 16
    while claims.is_reduced:
        claims.brought(claims.amount, 1.0, TIMEOUT_SECONDS)

    assert claims.amount == MOST_BYTES
