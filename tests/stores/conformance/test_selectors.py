"""Claims by selectors: each handler gets the messages that it is the first to want, within its limit."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from django_mq.delivery.codecs import encode_headers
from django_mq.engine.decisions.selection import Wanted
from django_mq.engine.decisions.verdict import Verdict
from django_mq.engine.message import Message
from django_mq.engine.selector import Selector
from django_mq.stores.records import ClaimRequest, ConsumerInfo, Heartbeat
from tests.engine.selectors.trees import TREES, Tree, written
from tests.stores.builders import a_message, claim, declare, ids, look, open_session, publish, settle

if TYPE_CHECKING:
    from django_mq.stores.base import Store
    from django_mq.stores.records import Browsed, Claimed

pytestmark = pytest.mark.usefixtures("orders")


def wanted(*texts: str, limit: int = 100, **limits: int) -> dict[str, list[Wanted]]:
    """What handlers of ``orders`` with these selectors want."""
    return {"orders": [Wanted(Selector(text), limits.get(f"limit{n}", limit)) for n, text in enumerate(texts)]}


def publish_with(store: Store, headers: dict[str, Any], **given: Any) -> int:
    return publish(store, headers=json.dumps(headers), **given)


def claim_by(store: Store, session: int, *texts: str, credit: int = 100, **given: Any) -> list[Claimed]:
    return claim(store, session, credit=credit, wanted=wanted(*texts), **given)


#: Headers of every type, and their look-alikes.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 0.5, 1.0, 3.0, 2**53 + 1, -(2**60), 1e300, 10**400),
    *("", "x", "X", "xy", "x ", "it's", "1", "true", "null", "%", "_", "*", "é", "日本", "a|b", "[x]", "\\"),
    *([], {}, [1], ["x"]),
]
CONDITIONS = [
    "a LIKE 'x%' AND b = 1 OR b LIKE 'x%' OR a LIKE 'x%'",  # one pattern three times
    *("a = 'x'", "a <> 'x'", "a = 1", "a <> 1", "a > 0", "a >= 1", "a < 0.75", "a <= 1", "a = TRUE", "a <> TRUE"),
    *("a", "NOT a", "NOT a = 1", "a IS NULL", "a IS NOT NULL", "a IN ('x', 'xy')", "a IN (1, 'x', TRUE)"),
    *("a NOT IN ('x')", "a NOT IN (1, 2)", "a NOT IN (1, 'x')", "(a IN (1)) = b", "a BETWEEN 0 AND 2"),
    *("a LIKE 'x%'", "a LIKE '_'", "a NOT LIKE 'x%'", "a LIKE '|%' ESCAPE '|'", "a LIKE '*'", "a LIKE '[x]'"),
    *("a LIKE 'é'", "a LIKE 'a|b'", "a LIKE ''", "a NOT BETWEEN 0 AND 2", "a = 'it''s'", "a = 'é'", "a = '日本'"),
    *("a = ''", "a = 'x '", "a = b", "a < b", "a <> b", "(a = 1) = (b = 1)", "a = 1 OR b = 1", "a = 1 AND b = 1"),
    *("a > -2 + 1", "a = 2 * 1", "a = 1 / 0", "a IS NULL AND b IS NOT NULL", "a = 1e300", "a = 9007199254740993"),
    *("1 = 1", "1 = 2", "'x'", "a > 'x'", "TRUE", "(a IS NULL) = TRUE", "a = '\\'", "a + 1 = 2", "a * 2 > b"),
    *("-a < 0", "a / 2 = 0", "a + b > 1", "missing = 1 OR a = 1", "NOT (a = 1 OR b = 1)"),
    *("NOT (a = 1 AND NOT b = 1)", "NOT " * 49 + "a = 1", "(" * 49 + "a = 1" + ")" * 49),
    "a = 1 OR (b = 1 AND (" * 11 + "a = 1" + "))" * 11,
    " OR ".join(f"a = {number}" for number in range(100)),
]


@pytest.fixture
def full(store: Store) -> list[Browsed]:
    """A queue with messages of every kind, as they are stored."""
    pairs = [(value, VALUES[(number * 7 + 3) % len(VALUES)]) for number, value in enumerate(VALUES)]
    store.publications.append_many([a_message(headers=json.dumps({"a": a, "b": b})) for a, b in pairs])
    return store.browser.browse("orders", states=[1], limit=1000)


def test_a_condition_is_worth_what_the_engine_says(store: Store, session: int, full: list[Browsed]) -> None:
    for text in CONDITIONS:
        found = claim_by(store, session, text)
        for message in found:
            settle(store, session, message, Verdict.RELEASE)

        assert ids(found) == [each.id for each in full if Selector(text).matches(each.as_message())], text


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(tree=TREES)
def test_random_conditions_are_worth_what_the_engine_says(store: Store, tree: Tree) -> None:
    declare(store, "random")
    if not store.browser.browse("random", states=[1, 2], limit=1):
        pairs = [(value, VALUES[(number * 7 + 3) % len(VALUES)]) for number, value in enumerate(VALUES)]
        store.publications.append_many(
            [a_message("random", headers=json.dumps({"a": a, "b": b, "c": a})) for a, b in pairs]
        )
    session = open_session(store)
    full, selector = store.browser.browse("random", states=[1], limit=1000), Selector(written(tree))

    found = claim(store, session, "random", wanted={"random": [Wanted(selector, 100)]})

    assert ids(found) == [each.id for each in full if selector.matches(each.as_message())]
    store.sessions.close(session)


#: Numbers that a database may round, beside those that they would be rounded to.
NUMBERS: list[int | float] = [
    *(0, 1, -0.0, 0.1, 0.3, 0.30000000000000004, 1e-320, 5e-324, 1.5, 4503599627370496.5, 4503599627370497),
    *(
        2**53 - 1,
        2**53,
        2**53 + 1,
        2.0**53,
        2**60,
        2**60 + 1,
        2.0**60,
        2**63 - 1,
        2**63,
        2.0**63,
        2**64,
        2**64 + 1,
    ),
    *(
        10**16,
        1e16,
        10**22,
        1e22,
        10**23,
        1e23,
        10**308,
        1e308,
        2 * 10**308,
        10**309,
        10**400,
        1.7976931348623157e308,
    ),
]
LITERALS = (0.1, 1.5, 2**53 - 1, 2**53, 2**53 + 1, 2.0**53, 2**63, 1e23, -(2**53), -(2**53) - 1)


def test_numbers_are_compared_exactly_as_they_were_published(store: Store) -> None:
    declare(store, "numbers")
    signed = [*NUMBERS, *(-number for number in NUMBERS)]
    pairs = [(one, other) for number, one in enumerate(signed) for other in signed[number : number + 3]]
    sent = [Message(id="", headers={"a": one, "b": other}) for one, other in pairs]
    store.publications.append_many(
        [a_message("numbers", headers=encode_headers(dict(each.headers))) for each in sent]
    )
    texts = ["a = b", "a <> b", "a < b", "a BETWEEN b AND b", "a IS NULL", f"a IN ({2**53}, {2**53 - 1}, 1e22)"]
    texts += [f"a {operator} {number!r}" for operator in ("=", "<") for number in LITERALS]

    for text in texts:
        session, selector, found = open_session(store), Selector(text), list[str]()
        while batch := claim(store, session, "numbers", credit=1000, wanted={"numbers": [Wanted(selector, 1000)]}):
            found += [each.headers for each in batch]  # a claim reads a few pages
        store.sessions.close(session)
        wanted = [each.headers for each in sent if selector.matches(each)]
        assert [json.loads(headers) for headers in found] == wanted, text


def test_properties_are_asked_like_headers(store: Store, session: int) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    publish(store)
    due, far = now - timedelta(hours=1), now + timedelta(hours=2)
    mine = publish(
        store, priority=7, type="order.Paid", correlation_id="c-1", body=b"12345", deliver_at=due, expires_at=far
    )
    stored = store.browser.browse("orders", states=[0, 1], limit=10)
    message = next(each for each in stored if each.id == mine).as_message()
    for text in (
        f"JMSMessageID = '{message.id}'",
        "JMSPriority BETWEEN 6 AND 8",
        f"JMSTimestamp > {int(now.timestamp() * 1000) - 60_000} AND JMSPriority = 7",
        f"JMSDeliveryTime = {int(due.timestamp() * 1000)}",
        f"JMSExpiration = {int(far.timestamp() * 1000)}",
        "JMSExpiration > 0",
        "JMSType = 'order.Paid'",
        "JMSType LIKE 'order.P%'",
        "JMSCorrelationID IN ('c-1', 'c-2')",
        "AMQSize = 5",
        "JMSDestination = 'orders' AND JMSReplyTo IS NULL AND JMSType IS NOT NULL",
    ):
        found = claim_by(store, session, text)
        assert ids(found) == [mine], text
        settle(store, session, found[0], Verdict.RELEASE)
    for text in (
        "JMSType = 'order.paid'",
        "JMSType LIKE 'order.p%'",
        "JMSDestination <> 'orders'",
        "JMSType = 'order.Paid '",
    ):
        assert claim_by(store, session, text) == [], text


def test_a_header_may_have_any_name(store: Store, session: int) -> None:
    publish_with(store, {"other": "eu"})
    for name in ("x-region", "a.b", 'quo"te', "back\\slash", "é", "and", "sp ace", "$", "*"):
        mine = publish_with(store, {name: "eu"})

        assert ids(claim_by(store, session, '"' + name.replace('"', '""') + "\" = 'eu'")) == [mine], name


def test_a_value_is_never_part_of_the_statement(store: Store, session: int) -> None:
    publish_with(store, {"a": "x"})

    assert claim_by(store, session, "a = 'x'' OR ''1'' = ''1' OR \"a' OR '1' = '1\" = 'x'") == []


def test_what_no_handler_wants_stays_for_other_workers(store: Store, session: int) -> None:
    left, mine = publish_with(store, {"region": "us"}), publish_with(store, {"region": "eu"})

    assert ids(claim_by(store, session, "region = 'eu'")) == [mine]
    assert ids(claim(store, open_session(store, "other"))) == [left]


def test_order_is_kept_among_what_is_wanted(store: Store, session: int) -> None:
    last = publish_with(store, {"a": 1}, priority=1)
    publish_with(store, {"a": 2}, priority=9)
    first, second = publish_with(store, {"a": 1}, priority=8), publish_with(store, {"a": 1}, priority=8)

    assert ids(claim_by(store, session, "a = 1", credit=2)) == [first, second]
    assert ids(claim_by(store, session, "a = 1")) == [last]


def test_each_handler_gets_no_more_than_its_limit(store: Store, session: int) -> None:
    eu = [publish_with(store, {"region": "eu"}) for _ in range(4)]
    us = [publish_with(store, {"region": "us"}) for _ in range(4)]
    publish_with(store, {"region": "asia"})
    given = wanted("region = 'eu'", "region = 'us'", limit0=1, limit1=3)

    result = look(store, session, credit=4, limits={"orders": 4}, wanted=given)

    assert sorted(ids(result.claimed)) == [*eu[:1], *us[:3]]
    assert result.more


def test_the_limit_of_a_queue_is_one_for_all_of_its_handlers(store: Store, session: int) -> None:
    first, second, _ = (publish_with(store, {"region": name}) for name in ("eu", "us", "eu"))

    found = claim(store, session, limits={"orders": 2}, wanted=wanted("region = 'eu'", "region = 'us'"))

    assert ids(found) == [first, second]


def test_a_handler_that_is_full_leaves_its_messages(store: Store, session: int) -> None:
    publish_with(store, {"region": "eu"})
    us = publish_with(store, {"region": "us"})
    given = wanted("region = 'eu'", "", limit0=0, limit1=5)

    result = look(store, session, credit=5, limits={"orders": 5}, wanted=given)

    assert ids(result.claimed) == [us]


def test_one_handler_at_its_limit_may_have_left_messages(store: Store, session: int) -> None:
    for _ in range(3):
        publish_with(store, {"region": "eu"})
    given = wanted("region = 'eu'", "region = 'us'", limit0=2, limit1=50)

    result = look(store, session, credit=52, limits={"orders": 52}, wanted=given)

    assert len(result.claimed) == 2
    assert result.more


def test_an_overlap_belongs_to_the_first_handler(store: Store, session: int) -> None:
    both = publish_with(store, {"a": 1, "b": 1})
    second = publish_with(store, {"b": 1})

    assert ids(look(store, session, wanted=wanted("a = 1", "b = 1", limit0=0, limit1=9)).claimed) == [second]
    assert ids(look(store, session, wanted=wanted("a = 1", "b = 1", limit0=9, limit1=0)).claimed) == [both]


def test_queues_with_and_without_selectors_are_claimed_together(store: Store, session: int) -> None:
    declare(store, "plain")
    publish_with(store, {"a": 2})
    mine, other = publish_with(store, {"a": 1}), publish(store, "plain")

    found = claim(store, session, "orders", "plain", wanted=wanted("a = 1"))

    assert sorted(ids(found)) == [mine, other]


def test_a_list_puts_queues_in_order_and_not_the_handlers_of_a_queue(store: Store, session: int) -> None:
    declare(store, "plain")
    last = publish(store, "plain", priority=9)
    second, first = publish_with(store, {"b": 1}), publish_with(store, {"b": 1}, priority=9)
    third = publish_with(store, {"a": 1})
    in_order, given = [first, second, third], wanted("a = 1", "b = 1", limit=2)

    for names, expected in (("orders",), in_order), (("orders", "plain"), [*in_order, last]):
        session = open_session(store)
        assert ids(claim(store, session, *names, credit=4, listed=True, wanted=given)) == expected
        store.sessions.close(session)


def test_what_a_full_handler_leaves_takes_no_turn(store: Store, session: int) -> None:
    declare(store, "plain")
    first, _, third = (publish_with(store, {name: 1}) for name in "aab")
    other, _ = publish(store, "plain"), publish(store, "plain")
    given = wanted("a = 1", "b = 1", limit0=1)

    assert ids(claim(store, session, "orders", "plain", credit=3, wanted=given)) == [first, other, third]


def test_a_queue_is_claimed_beside_one_whose_handlers_have_no_credit(store: Store, session: int) -> None:
    declare(store, "plain")
    publish_with(store, {"a": 1})
    other = publish(store, "plain")

    request = ClaimRequest(queues=("orders", "plain"), credit=5, wanted=wanted("a = 1", limit0=0))
    assert ids(store.claims.settle_and_claim(session, [], request).claimed) == [other]


def test_a_calculation_is_one_of_the_engine(store: Store, session: int) -> None:
    declare(store, "plain")
    publish_with(store, {"a": 0.1, "b": 0.2})
    mine, other = publish_with(store, {"a": 2, "b": 4}), publish(store, "plain")

    found = claim(store, session, "orders", "plain", wanted=wanted("a + b = 0.3", "a * 2 = b AND b / 3 = 1"))

    assert sorted(ids(found)) == [mine, other]


def test_a_calculation_looks_beyond_many_messages(store: Store, session: int) -> None:
    store.publications.append_many([a_message(headers='{"a": 1}') for _ in range(300)])
    mine = publish_with(store, {"a": 2})

    assert ids(claim_by(store, session, "a + 1 = 3", credit=1)) == [mine]


def test_groups_are_kept_among_what_is_wanted(store: Store, session: int) -> None:
    declare(store, "grouped", grouping="shared")
    given = {"grouped": [Wanted(Selector("a = 1"), 9), Wanted(Selector("b * 1 = 1"), 9)]}
    publish(store, "grouped", group_key="g", headers='{"c": 1}')
    first = publish(store, "grouped", group_key="g", headers='{"a": 1}')
    second = publish(store, "grouped", group_key="g", headers='{"b": 1}')
    other = publish(store, "grouped", group_key="h", headers='{"b": 1}')

    found = claim(store, session, "grouped", wanted=given)
    assert ids(found) == [first, other]

    settle(store, session, found[0], Verdict.ACCEPT)
    assert ids(claim(store, session, "grouped", wanted=given)) == [second]


@pytest.mark.parametrize("grouping", ["shared", "assigned", "balanced"])
def test_a_group_waits_for_the_handler_of_its_first_message(store: Store, session: int, grouping: str) -> None:
    declare(store, "grouped", grouping=grouping)
    selectors = Selector("a = 1"), Selector("b = 1")
    first, second = (publish(store, "grouped", group_key="g", headers=text) for text in ('{"a": 1}', '{"b": 1}'))
    other = publish(store, "grouped", group_key="h", headers='{"b": 1}')

    without = {"grouped": [Wanted(selectors[0], 0), Wanted(selectors[1], 9)]}
    assert ids(claim(store, session, "grouped", wanted=without)) == [other]
    both = {"grouped": [Wanted(each, 9) for each in selectors]}
    in_order = frozenset({"grouped"})
    assert ids(claim(store, session, "grouped", wanted=both, in_order=in_order)) == [first, second]


@pytest.mark.parametrize("grouping", ["shared", "balanced"])
def test_each_handler_of_a_queue_with_groups_gets_its_number(store: Store, session: int, grouping: str) -> None:
    declare(store, "grouped", grouping=grouping)
    headers = ['{"a": 1}'] * 5 + ['{"b": 1}'] * 5
    published = [publish(store, "grouped", group_key=str(n), headers=each) for n, each in enumerate(headers)]
    wanted = {"grouped": [Wanted(Selector("a = 1"), 2), Wanted(Selector("b = 1"), 3)]}

    found = ids(claim(store, session, "grouped", credit=5, wanted=wanted))

    assert found == [*published[:2], *published[5:8]]


def test_a_strict_queue_passes_only_what_is_not_wanted(store: Store, session: int) -> None:
    declare(store, "strict", strict=True)
    publish(store, "strict", headers='{"c": 1}')
    first, second = (publish(store, "strict", headers=text) for text in ('{"a": 1}', '{"b": 1}'))
    selectors = Selector("a = 1"), Selector("b = 1")

    without = {"strict": [Wanted(selectors[0], 0), Wanted(selectors[1], 9)]}
    assert claim(store, session, "strict", wanted=without) == []
    both = {"strict": [Wanted(each, 9) for each in selectors]}
    assert ids(claim(store, session, "strict", wanted=both)) == [first, second]


@pytest.mark.parametrize("credit", [1, 250])
def test_a_limited_queue_passes_what_is_not_wanted(store: Store, session: int, credit: int) -> None:
    declare(store, "limited", max_in_flight=1)
    store.publications.append_many([a_message("limited", headers='{"a": 1}') for _ in range(230)])
    mine = publish(store, "limited", headers='{"a": 2}')
    publish(store, "limited", headers='{"a": 2}')

    found = claim(
        store, session, "limited", credit=credit, wanted={"limited": [Wanted(Selector("a = 2"), credit)]}
    )

    assert ids(found) == [mine]


def test_a_message_is_left_to_a_better_consumer_only_if_it_wants_it(store: Store, session: int) -> None:
    better = open_session(store, "better")
    for number, priority, selector in ((better, 5, "a = 1"), (session, 0, "")):
        told = ConsumerInfo(queue_name="orders", priority=priority, credit_limit=10, selector=selector)
        store.sessions.renew(number, Heartbeat(deadline_seconds=60.0, consumers=(told,)))
    publish_with(store, {"a": 1})
    mine = publish_with(store, {"a": 2})

    assert ids(claim(store, session)) == [mine]


def test_a_suspect_that_no_handler_wants_keeps_no_message_back(store: Store, session: int) -> None:
    publish_with(store, {"a": 1})
    dying = open_session(store, "dying")
    assert claim_by(store, dying, "a = 1")
    store.sessions.renew(dying, Heartbeat(deadline_seconds=-1.0))
    store.sessions.reap()
    mine = publish_with(store, {"a": 2})

    assert ids(claim_by(store, session, "a = 2")) == [mine]


def test_settlements_travel_with_a_claim_by_selectors(store: Store, session: int) -> None:
    first, second = publish_with(store, {"a": 1}), publish_with(store, {"b": 1})
    for text, id_ in (("a = 1", first), ("b = 1", second)):
        [held] = claim_by(store, session, text)
        assert held.id == id_
        assert settle(store, session, held, Verdict.ACCEPT) == frozenset()

    assert store.queues.counts(["orders"])["orders"].total == 0
