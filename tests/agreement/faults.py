"""Faults that are planted in a copy of the package, one rule each; the comparison must find every one.

``python -m tests.agreement --store KIND --planted [NAME ...]`` prints how many seconds each took.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from django_mq.stores.sql.database import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
STORES = Path("django_mq/stores")
FOUND = re.compile(r"^history (\d+) .* after ([\d.]+) seconds", re.MULTILINE)
#: Past this, a fault counts as not found.
MOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Edit:
    """What is replaced in a statement of the store, or in one that stores share, where it must occur.

    A name that ends in ``.py`` is a file beside them.
    """

    place: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a store no longer keeps, and what breaks it where a store has a statement of its own for it."""

    name: str
    edits: tuple[Edit, ...]
    own: dict[str, Edit]

    def of(self, store: str) -> tuple[Edit, ...]:
        """Return the edits that break the rule in a store."""
        return (self.own[store],) if store in self.own else self.edits


def fault(name: str, *edits: tuple[str, str, str], **own: tuple[str, str, str]) -> Fault:
    """Return a fault of these edits, which are another one in the stores named."""
    return Fault(name, tuple(Edit(*edit) for edit in edits), {store: Edit(*edit) for store, edit in own.items()})


FAULTS = (
    fault("a group is not exclusive", ("facts", "h.state = 2 AND h.group_key", "h.state = 9 AND h.group_key")),
    fault("a declined message comes back", ("note_declined", "s.id = %(session)s", "s.id = -%(session)s")),
    fault("a message that one session wants is dead", ("declined", "THEN 1 ELSE 0 END", "THEN 1 ELSE 1 END")),
    fault("a group does not wait for its next attempt", ("facts", "w.state = 0", "w.state = 9")),
    fault(
        "an assigned group has no owner",
        ("own_chosen", "m.group_key END", "NULL END"),
        postgresql=("claim_chosen", "m.group_key END", "NULL END"),
    ),
    fault(
        "the order of a level is lost",
        ("claim", "m.level DESC, m.place, m.id", "m.level DESC, m.id"),
    ),
    fault(
        "the order of levels is lost in a constrained queue",
        ("_first_page", "m.level DESC, m.place, m.id", "m.id DESC"),
    ),
    fault(
        "merged queues do not take turns",
        ("_candidates", "walk.turn, walk.position", "walk.position"),
        mysql=("mysql/store.py", "listed=request.listed", "listed=True"),
    ),
    fault(
        "expiry is ignored",
        ("find_expired", "expires_at <= {now}", "expires_at <= {now} AND id < 0"),
        mysql=("_expired_in_state", "expires_at <= {now}", "expires_at <= {now} AND id < 0"),
    ),
    fault(
        "an expired message is not counted as expired", ("sql/moves.py", "(over, EXPIRED)", "(over, CANCELLED)")
    ),
    fault(
        "the longest time to live is ignored",
        ("_expiry", "coalesce({after:q.max_ttl_seconds}, {bounded})", "{bounded}"),
        postgresql=("_expiry", " END, {after:q.max_ttl_seconds}", " END"),
    ),
    fault(
        "what a dead worker held is not suspect",
        ("give_back_held_by_expired", "suspect = 1", "suspect = 0"),
        postgresql=("release_held_by_expired", "suspect = true", "suspect = false"),
        mysql=("release_held_by_expired", "suspect = true", "suspect = false"),
    ),
    fault(
        "a suspect's attempt is not counted",
        ("lease", "attempts + suspect", "attempts"),
        postgresql=("_lease", "m.attempts + m.suspect::int", "m.attempts"),
    ),
    fault("one duplicate id too many is remembered", ("duplicate_horizon", "%(kept)s", "%(kept)s + 1")),
    fault("the time of a duplicate id is ignored", ("duplicate_of", "q.dedup_seconds", "NULL")),
    fault(
        "a ring keeps one too many",
        (
            "sql/moves.py",
            "if capacity.is_ring and evicts:\n                evicted",
            "if capacity.is_ring and evicts and capacity.add(-1, 0) is None:\n                evicted",
        ),
    ),
    fault(
        "what a ring replaces is not sent on",
        ("sql/moves.py", "self.send_dead(ids, MAXLEN)\n", "pass\n"),
    ),
    fault(
        "a message that is rejected again and again is sent on",
        ("sql/moves.py", "is_last=is_last\n", "is_last=True\n"),
    ),
    fault("a ring spares the lowest level", ("lowest_level", "level >= %(level)s", "level > %(level)s")),
    fault(
        "claimed messages take no room",
        ("count_up_to", "m.state = 2", "m.state = 9"),
        mysql=("count_up_to", "WHERE m.queue_id", "WHERE m.state <> 2 AND m.queue_id"),
    ),
    fault(
        "bytes of dead messages take no room",
        ("measure_queue", "state = 3", "state = 9"),
        mysql=("measure_queue", "WHERE queue_id", "WHERE state <> 3 AND queue_id"),
    ),
    fault(
        "a slot is not freed",
        (
            "facts",
            "JOIN django_mq_workersession s ON s.id = o.session_id",
            "LEFT JOIN django_mq_workersession s ON s.id = o.session_id",
        ),
        ("drop_ownerships", "WHERE", "WHERE group_key IS NOT NULL AND"),
    ),
    fault(
        "a slot is not taken",
        ("own_chosen", "[0]')", "[0]') AND json_extract(given.value, '$[1]')"),
        mysql=("own_chosen", "ON m.id = given.id", "ON m.id = given.id AND given.by_group"),
        postgresql=("claim_chosen", "false AS is_group", "false AS is_group WHERE false"),
    ),
    fault(
        "one more is in flight",
        (
            "facts",
            "SELECT count(*) FROM django_mq_message h {by:django_mq_message_ready}",
            "SELECT max(0, count(*) - 1) FROM django_mq_message h {by:django_mq_message_ready}",
        ),
    ),
    fault("a redrive keeps the attempts", ("redrive_dead", "attempts = 0, ", "")),
    fault(
        "a pause is ignored where queues are merged",
        ("_candidates", " AND NOT {paused}", ""),
        mysql=("candidates", " AND NOT {paused}", ""),
    ),
    fault("a pause does not end", ("_paused", "q.paused_until > {now}", "true")),
    fault(
        "the priority of a consumer is ignored",
        ("facts", "c.session_id, c.priority, c.credit_limit", "c.session_id, 0, c.credit_limit"),
    ),
    fault("the credit of a better consumer is ignored", ("facts", "c.priority, c.credit_limit", "c.priority, 0")),
    fault(
        "the bytes of a claim are ignored",
        ("sqlite/store.py", "len(row[BODY_COLUMN])) for row", "0) for row"),
        mysql=("mysql/store.py", "request.slots, request.max_bytes)", "request.slots, 2**60)"),
        postgresql=("_chosen", "total_bytes <= %(max_bytes)s::bigint", "true"),
    ),
    fault(
        "the byte credit of a consumer is ignored",
        ("_allowed", "own_bytes <=", "0 <="),
        mysql=("mysql/store.py", "allowed(sizes, request.byte_credit)", "[True] * len(locked)"),
    ),
    fault(
        "the limit of a queue is ignored",
        ("_candidates", "portion_turn <= json_extract(given.value, '$.limits')", "true"),
        mysql=("mysql/store.py", "each.limit for", "request.credit for"),
        postgresql=("_locked", "turn <= (%(limits)s::bigint[])[position]", "true"),
    ),
    fault(
        "a retry is not delayed",
        ("settle_released", "delay_seconds > 0 THEN 0", "delay_seconds > 0 THEN 1"),
        mysql=("settle_released", "%(delay_seconds)s > 0 THEN 0", "%(delay_seconds)s > 0 THEN 1"),
    ),
    fault("a message given back is not marked", ("settle_released", "redelivered = true, ", "")),
    fault(
        "what is given back uncounted is counted",
        ("_counted", "given.counted AND NOT m.suspect", "NOT m.suspect"),
        mysql=("_counted", "%(counted)s AND NOT suspect", "NOT suspect"),
    ),
    fault(
        "a late settlement counts",
        ("_held", "gone.claim = CAST(given.key AS INTEGER) AND ", ""),
        mysql=(
            "mysql/store.py",
            "return [item for item in settlements if item.receipt in held]",
            "return [item for item in settlements if item.id in dict(held)]",
        ),
        postgresql=(
            "_settled",
            "(m.id, m.claim) IN (SELECT * FROM unnest(%(ids)s::bigint[], %(claims)s::bigint[]))",
            "true",
        ),
    ),
    fault(
        "claimed messages are cancelled",
        ("remove", "state <> 2", "state <> 9"),
        mysql=("mysql/store.py", "[0, 1], [0, 1, 3, 7]", "[0, 1], [0, 1, 2, 3, 7]"),
    ),
    fault(
        "scheduled messages are not purged",
        ("find_unheld", "m.state = 0", "m.state = 9"),
        mysql=("find_unheld", "{unheld_in_state:0}", "{unheld_in_state:9}"),
    ),
    fault(
        "a move loses the order",
        ("move", "ORDER BY n.level DESC, n.place, n.id", "ORDER BY n.id DESC"),
        mysql=("lock_unheld", "ORDER BY level DESC, place, id", "ORDER BY id DESC"),
    ),
    fault(
        "a move keeps the attempts",
        ("move", "attempts = 0, ", ""),
        mysql=("_copy_to_tail", "n.priority, 0, {del", "n.priority, n.attempts, {del"),
        postgresql=("_copy_to_tail", "n.priority, 0, {del", "n.priority, n.attempts, {del"),
    ),
    fault(
        "the reason of a dead letter is wrong",
        ("settle_dead", "dead_reason = given.reason", "dead_reason = 'failed'"),
        mysql=("settle_dead", "dead_reason = %(reason)s", "dead_reason = 'failed'"),
    ),
    fault(
        "one attempt too many",
        ("release_held_by_expired", "q.max_attempts", "q.max_attempts + (q.max_attempts > 0)"),
        mysql=("lock_held_by_expired", "q.max_attempts", "q.max_attempts + (q.max_attempts > 0)"),
        postgresql=("release_held_by_expired", "q.max_attempts", "q.max_attempts + sign(q.max_attempts)::int"),
    ),
    fault("a last value keeps the old one", ("older_values", "state < 3", "state = 2")),
    fault("a value in advance replaces nothing", ("_early", "IS NOT NULL", "IS NULL")),
    fault("a value in advance arrives late", ("sql/capacities.py", "if row[4]:", "if not row[4]:")),
    fault("due messages do not come first", ("_due_place", "q.due_order = 'keep_place'", "q.due_order <> ''")),
    fault(
        "a new priority keeps the place",
        ("prioritise", "level = moving.level, ", ""),
        mysql=("_copy_with_priority", "{level:n.priority}", "m.level"),
        postgresql=("_copy_with_priority", "{level:n.priority}", "m.level"),
    ),
    fault("a session that ends keeps its messages", ("release_session", "state = 2 AND", "state = 9 AND")),
)


def find_all(store: str, names: Sequence[str], seconds: float) -> int:
    """Plant each fault, or those named, in a store, and print when it was found; 1 if one was not."""
    missed = 0
    for planted in FAULTS:
        if names and not any(name in planted.name for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="django_mq-planted-") as folder:
            try:
                plant(planted, store, Path(folder))
                answer = _search(store, Path(folder), min(MOST_SECONDS, seconds))
            except LookupError as error:
                answer = f"cannot be planted: {error}"
        missed += not answer.startswith("found")
        sys.stdout.write(f"{planted.name:55} {answer}\n")
        sys.stdout.flush()
    return int(missed > 0)


def plant(planted: Fault, store: str, folder: Path) -> None:
    """Copy the package into a folder, with the fault in a store. Raises LookupError where a text is not found."""
    shutil.copytree(
        ROOT / "django_mq", folder / "django_mq", ignore=shutil.ignore_patterns("__pycache__", "locale")
    )
    (folder / "tests").symlink_to(ROOT / "tests")
    for edit in planted.of(store):
        path, text = place(edit, store, folder)
        content = path.read_text(encoding="utf-8")
        path.write_text(content.replace(text, text.replace(edit.old, edit.new)), encoding="utf-8")


def place(edit: Edit, store: str, folder: Path = ROOT) -> tuple[Path, str]:
    """Return a file of the package, and its statement or all of it, which an edit changes. Raises LookupError."""
    for path, text in _places(edit.place, store, folder):
        if edit.old not in text:
            raise LookupError(f"{edit.place} does not contain {edit.old!r}")
        return path, text
    raise LookupError(f"there is no {edit.place}")


def _places(name: str, store: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield where a name stands: in a file, or as a statement of the store, then as one that stores share."""
    if name.endswith(".py"):
        path = folder / STORES / name
        yield path, path.read_text(encoding="utf-8")
        return
    for owner in (store, "sql"):
        for path in (folder / STORES / owner / "sql").glob("*.sql"):
            if (text := dict(named(path.read_text(encoding="utf-8"))).get(name)) is not None:
                yield path, text


def _search(store: str, folder: Path, seconds: float) -> str:
    """Say how long the comparison took to find the fault."""
    done = _compare(store, folder, "--seconds", str(seconds))
    if (found := FOUND.search(done.stdout)) is not None:
        if FOUND.search(_compare(store, ROOT, "--only", found[1]).stdout):
            return f"history {found[1]} disagrees without it, too"
        return f"found after {float(found[2]):6.1f} seconds, in history {found[1]}"
    if done.returncode:
        return f"did not run: {done.stderr.strip().splitlines()[-1:]}"
    return f"NOT found in {seconds:.0f} seconds"


def _compare(store: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.agreement", "--unshrunk", "--store", store, *options],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
