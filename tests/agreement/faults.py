"""Faults that are planted in a copy of the package, one rule each; the comparison must find every one.

``python -m tests.agreement --planted [NAME ...]`` prints how many seconds each took.
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

from django_mq.stores.statements import named

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
STORES = Path("django_mq/stores")
#: The store in whose statements faults are planted.
STORE = "sqlite"
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
    """A rule that a store no longer keeps."""

    name: str
    edits: tuple[Edit, ...]


def fault(name: str, *edits: tuple[str, str, str]) -> Fault:
    """Return a fault of these edits."""
    return Fault(name, tuple(Edit(*edit) for edit in edits))


FAULTS = (
    fault("a group is not exclusive", ("facts", "h.state = 2 AND h.group_key", "h.state = 9 AND h.group_key")),
    fault("a group does not wait for its next attempt", ("facts", "w.state = 0", "w.state = 9")),
    fault("an assigned group has no owner", ("own_chosen", "m.group_key END", "NULL END")),
    fault("the order of a level is lost", ("claim", "m.level DESC, m.place, m.id", "m.level DESC, m.id")),
    fault(
        "the order of levels is lost in a constrained queue",
        ("facts", "m.level DESC, m.place, m.id", "m.id DESC"),
    ),
    fault("merged queues do not take turns", ("claim_across", "walk.turn, walk.position", "walk.position")),
    fault("expiry is ignored", ("find_expired", "expires_at <= {now}", "expires_at <= {now} AND id < 0")),
    fault(
        "an expired message is not counted as expired", ("sql/steering.py", "(ids, EXPIRED)", "(ids, CANCELLED)")
    ),
    fault(
        "the longest time to live is ignored",
        ("_expiry", "coalesce({after:q.max_ttl_seconds}, {bounded})", "{bounded}"),
    ),
    fault("what a dead worker held is not suspect", ("give_back_lapsed", "suspect = 1", "suspect = 0")),
    fault("a suspect's attempt is not counted", ("lease", "attempts + suspect", "attempts")),
    fault("one duplicate id too many is remembered", ("duplicate_horizon", "%(kept)s", "%(kept)s + 1")),
    fault("the time of a duplicate id is ignored", ("duplicate_of", "q.dedup_seconds", "NULL")),
    fault(
        "a ring keeps one too many",
        (
            "sql/admitting.py",
            "if room.is_ring:\n                evicted",
            "if room.is_ring and room.add(-1, 0) is None:\n                evicted",
        ),
    ),
    fault("a ring spares the lowest level", ("lowest_level", "level >= %(level)s", "level > %(level)s")),
    fault("claimed messages take no room", ("count_up_to", "m.state = 2", "m.state = 9")),
    fault("bytes of dead messages take no room", ("measure_queue", "state = 3", "state = 9")),
    fault(
        "a slot is not freed",
        (
            "facts",
            "JOIN django_mq_workersession s ON s.id = o.session_id",
            "LEFT JOIN django_mq_workersession s ON s.id = o.session_id",
        ),
        ("drop_ownerships", "WHERE", "WHERE group_key IS NOT NULL AND"),
    ),
    fault("a slot is not taken", ("own_chosen", "[0]')", "[0]') AND json_extract(given.value, '$[1]')")),
    fault(
        "one more is in flight",
        (
            "facts",
            "SELECT count(*) FROM django_mq_message h {by:django_mq_message_ready}",
            "SELECT max(0, count(*) - 1) FROM django_mq_message h {by:django_mq_message_ready}",
        ),
    ),
    fault("a redrive keeps the attempts", ("retry_dead", "attempts = 0, ", "")),
    fault("a pause is ignored where queues are merged", ("claim_across", " AND NOT {paused}", "")),
    fault("a pause does not end", ("_paused", "q.paused_until > {now}", "true")),
    fault(
        "the priority of a consumer is ignored",
        ("facts", "c.session_id, c.priority, c.credit_limit", "c.session_id, 0, c.credit_limit"),
    ),
    fault("the credit of a better consumer is ignored", ("facts", "c.priority, c.credit_limit", "c.priority, 0")),
    fault("the bytes of a claim are ignored", ("sqlite/store.py", "len(row[BODY_COLUMN])) for row", "0) for row")),
    fault("the limit of a queue is ignored", ("claim_across", "walk.turn <= walk.allowed", "true")),
    fault("a retry is not delayed", ("settle_released", "delay_seconds > 0 THEN 0", "delay_seconds > 0 THEN 1")),
    fault("a message given back is not marked", ("settle_released", "redelivered = true, ", "")),
    fault(
        "what is given back uncounted is counted",
        ("_counted", "given.counted AND NOT m.suspect", "NOT m.suspect"),
    ),
    fault("a late settlement counts", ("_held", "gone.claim = CAST(given.key AS INTEGER) AND ", "")),
    fault("claimed messages are cancelled", ("remove", "state <> 2", "state <> 9")),
    fault("scheduled messages are not purged", ("find_unheld", "m.state = 0", "m.state = 9")),
    fault("a move loses the order", ("move", "ORDER BY n.level DESC, n.place, n.id", "ORDER BY n.id DESC")),
    fault("a move keeps the attempts", ("move", "attempts = 0, ", "")),
    fault(
        "the reason of a dead letter is wrong",
        ("settle_dead", "dead_reason = given.reason", "dead_reason = 'failed'"),
    ),
    fault("one attempt too many", ("release_lapsed", "q.max_attempts", "q.max_attempts + (q.max_attempts > 0)")),
    fault("a last value keeps the old one", ("older_values", "state < 3", "state = 2")),
    fault("due messages do not come first", ("_place", "q.due_order = 'keep_place'", "q.due_order <> ''")),
    fault("a new priority keeps the place", ("prioritise", "level = moving.level, ", "")),
    fault("a session that ends keeps its messages", ("release_session", "state = 2 AND", "state = 9 AND")),
)


def find_all(names: Sequence[str], seconds: float) -> int:
    """Plant each fault, or those named, and print when it was found; 1 if one was not."""
    missed = 0
    for planted in FAULTS:
        if names and not any(name in planted.name for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="django_mq-planted-") as folder:
            try:
                plant(planted, Path(folder))
                answer = _search(Path(folder), min(MOST_SECONDS, seconds))
            except LookupError as error:
                answer = f"cannot be planted: {error}"
        missed += not answer.startswith("found")
        sys.stdout.write(f"{planted.name:55} {answer}\n")
        sys.stdout.flush()
    return int(missed > 0)


def plant(planted: Fault, folder: Path) -> None:
    """Copy the package into a folder, with the fault. Raises LookupError where the text is not what it was."""
    shutil.copytree(
        ROOT / "django_mq", folder / "django_mq", ignore=shutil.ignore_patterns("__pycache__", "locale")
    )
    (folder / "tests").symlink_to(ROOT / "tests")
    for edit in planted.edits:
        path, text = _place(folder, edit.place)
        if edit.old not in text:
            raise LookupError(f"{edit.place} does not contain {edit.old!r}")
        content = path.read_text(encoding="utf-8")
        path.write_text(content.replace(text, text.replace(edit.old, edit.new)), encoding="utf-8")


def _place(folder: Path, place: str) -> tuple[Path, str]:
    """Return a file of the copy, and what of it is a statement with its heading, or all of it."""
    if place.endswith(".py"):
        path = folder / STORES / place
        return path, path.read_text(encoding="utf-8")
    for owner in (STORE, "sql"):
        for path in (folder / STORES / owner / "sql").glob("*.sql"):
            if (text := dict(named(path.read_text(encoding="utf-8"))).get(place)) is not None:
                return path, text
    raise LookupError(f"there is no {place}")


def _search(folder: Path, seconds: float) -> str:
    """Say how long the comparison took to find the fault."""
    done = _compare(folder, "--seconds", str(seconds))
    if (found := FOUND.search(done.stdout)) is not None:
        if FOUND.search(_compare(ROOT, "--only", found[1]).stdout):
            return f"history {found[1]} disagrees without it, too"
        return f"found after {float(found[2]):6.1f} seconds, in history {found[1]}"
    if done.returncode:
        return f"did not run: {done.stderr.strip().splitlines()[-1:]}"
    return f"NOT found in {seconds:.0f} seconds"


def _compare(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.agreement", "--unshrunk", "--store", STORE, *options],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
