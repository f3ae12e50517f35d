"""A worker's own connection to a server is bounded in time."""

from __future__ import annotations

from contextlib import closing

import pytest
from django.db import connections

from django_mq.delivery.consumer import lease
from django_mq.delivery.consumer.session import Session
from django_mq.errors import StoreUnavailable
from django_mq.notifications.base import Wake
from django_mq.stores import connections as store_connections
from django_mq.stores.mysql.database import LOCK_SECONDS
from django_mq.stores.mysql.database import bounded as bounded_on_mysql
from django_mq.stores.postgresql.settings import bounded
from django_mq.stores.records import ClaimRequest
from django_mq.stores.registry import private_store
from tests.proof.trap import Trap
from tests.settings.databases import to_url
from tests.stores.builders import open_session
from tests.support.waiting import wait_until


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_statement_over_the_time_limit_ends_as_an_unavailable_store(settings):
    settings.DJANGO_MQ = {"STATEMENT_TIMEOUT_SECONDS": 0.5}
    store = private_store("postgresql")

    with pytest.raises(StoreUnavailable, match="statement timeout"), store.database.transaction():
        store.database.connection.cursor().execute("SELECT pg_sleep(30)")

    store.close()


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_statement_over_the_time_limit_of_mariadb_ends_as_an_unavailable_store(settings):
    settings.DJANGO_MQ = {"STATEMENT_TIMEOUT_SECONDS": 0.5}
    store = private_store("mariadb")

    with pytest.raises(StoreUnavailable, match="max_statement_time"), store.database.transaction():
        store.database.connection.cursor().execute("SELECT sleep(30) FROM seq_1_to_3")

    store.close()


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_connection_to_mariadb_has_its_limits_again_when_it_was_opened_anew():
    store = private_store("mariadb")
    store.database.disconnect()

    assert store.database.rows("waiting_limit") == [(LOCK_SECONDS,)]
    store.database.disconnect()
    assert store.database.rows("waiting_limit") == [(LOCK_SECONDS,)]
    store.close()


#: What a project may set for its connections, and the limits then: idle in a transaction, waiting for a lock.
LIMITS = {
    "none": ("", ("5s", "3s")),
    "shorter": ("-c idle_in_transaction_session_timeout=2s -c lock_timeout=500ms", ("2s", "500ms")),
    "longer": ("-c idle_in_transaction_session_timeout=1min -c lock_timeout=1min", ("5s", "3s")),
}


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
@pytest.mark.parametrize("given", LIMITS)
def test_a_transaction_of_postgresql_keeps_a_shorter_limit_of_the_project(given, monkeypatch):
    monkeypatch.setattr(store_connections, "IDLE_SECONDS", 5)
    options, (idle, lock) = LIMITS[given]
    with closing(private_store("postgresql")) as store:
        store.database.connection.settings_dict["OPTIONS"]["options"] += f" {options}"
        [[(outside,)]] = shown(store, ["idle_in_transaction_session_timeout"])

        with store.database.transaction():
            [[begun]] = shown(store, ["idle_in_transaction_session_timeout"])
        with store.database.conversation() as ask:
            ask([])
            in_steps = [row[0][0] for row in shown(store, ["idle_in_transaction_session_timeout", "lock_timeout"])]

        assert (begun, in_steps) == ((idle,), [idle, lock])
        assert shown(store, ["idle_in_transaction_session_timeout"]) == [[(outside,)]]


def shown(store, names):
    return [store.database.fetch(f"SHOW {name}", ()) for name in names]


@pytest.mark.django_db(databases=["mariadb"], transaction=True)
def test_a_connection_to_mariadb_keeps_a_shorter_limit_of_the_project(monkeypatch):
    monkeypatch.setattr(store_connections, "IDLE_SECONDS", 5)
    names = ["innodb_lock_wait_timeout", "net_read_timeout", "idle_transaction_timeout", "max_statement_time"]
    for given, expected in ((1, [1, 1, 1, 1.0]), (100, [LOCK_SECONDS, 5, 5, 30.0])):
        with closing(private_store("mariadb")) as store:
            values = ", ".join(f"{name} = {given}" for name in names)
            store.database.connection.settings_dict["OPTIONS"]["init_command"] = f"SET SESSION {values}"
            store.database.rows("clock")

            assert (
                list(*store.database.fetch(f"SELECT {', '.join(f'@@{name}' for name in names)}", ())) == expected
            )


def test_what_the_project_sets_itself_is_kept_on_mariadb():
    given = {"OPTIONS": {"connect_timeout": 3, "isolation_level": "serializable"}}

    options = bounded_on_mysql(given, 30.0)["OPTIONS"]

    assert (options["connect_timeout"], options["read_timeout"]) == (3, 33)
    assert options["isolation_level"] == "read committed"
    assert given["OPTIONS"]["isolation_level"] == "serializable"


def test_what_the_project_sets_itself_is_kept():
    given = {"OPTIONS": {"connect_timeout": 3, "options": "-c statement_timeout=9", "pool": True}}

    options = bounded(given, 30.0)["OPTIONS"]

    assert options["connect_timeout"] == 3
    assert options["options"].startswith("-c statement_timeout=30000 ")
    assert options["options"].endswith(" -c statement_timeout=9")
    assert "pool" not in options
    assert given["OPTIONS"]["pool"] is True


def test_a_worker_prepares_its_statements_unless_the_project_has_a_pooler():
    assert bounded({}, 30.0)["OPTIONS"]["prepare_threshold"] is not None
    assert "prepare_threshold" not in bounded({"DISABLE_SERVER_SIDE_CURSORS": True}, 30.0)["OPTIONS"]
    assert bounded({"OPTIONS": {"prepare_threshold": None}}, 30.0)["OPTIONS"]["prepare_threshold"] is None


@pytest.fixture
def trap(monkeypatch):
    """A way to PostgreSQL that can fall silent, which new connections take."""
    direct = connections["postgresql"].settings_dict
    with Trap(to_url(direct)) as opened:
        monkeypatch.setitem(direct, "HOST", "127.0.0.1")
        monkeypatch.setitem(direct, "PORT", str(opened.port))
        yield opened


@pytest.mark.parametrize("several", [False, True], ids=["one statement", "several at once"])
@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_connection_on_which_nothing_arrives_is_given_up(trap, several):
    store = private_store("postgresql")
    session = open_session(store)

    def ask():
        return store.claims.settle_and_claim(
            session, [], ClaimRequest(queues=("q",), credit=1, promote=several)
        ).claimed

    ask()
    trap.silence()

    with (
        pytest.raises(StoreUnavailable, match=r"has not answered for 0\.2 s"),
        store.database.answering_within(0.2),
    ):
        ask()
    store.close()

    assert ask() == []
    store.close()


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_a_session_is_renewed_over_another_connection_before_its_deadline(trap, settings, caplog):
    settings.DJANGO_MQ = {"SESSION_SECONDS": 3, "MAINTENANCE_SECONDS": 60}
    wake = Wake()
    with closing(Session("postgresql", kind="native", wake=wake)) as session:
        session.settle_and_claim(ClaimRequest(queues=("q",), credit=1))
        trap.silence()
        session.renew_soon()
        # An earlier renewal may have been answered just before.
        wait_until(lambda: "has not answered for 1 s" in caplog.text, "a renewal without an answer")
        now = lease.now()
        wait_until(lambda: session.state.record.confirmed_at > now, "a renewal")
        session.store.close()

    assert "was reaped" not in caplog.text
    wake.close()


@pytest.mark.django_db(databases=["postgresql"], transaction=True)
def test_the_statements_of_an_exchange_are_planned_once():
    store = private_store("postgresql")
    session = open_session(store)

    store.claims.settle_and_claim(session, [], ClaimRequest(queues=("q",), credit=1))

    with store.database.connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements")
        assert cursor.fetchone()[0] == len(("bound_transaction", "promote_due", "claim"))
    store.close()
