"""The statements of workflows, over the connection over which a message ends, or a workflow is started.

They run in the transaction that is open there. A row of a run is locked by ``lock``, that of the topmost workflow;
so are its steps. Only items of a step, which end by themselves, are changed without: see ``count_items``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from django_mq.engine.decisions.workflows import StepState, WorkflowState
from django_mq.stores.clock import clock
from django_mq.stores.connections import translating
from django_mq.stores.sql.savepoints import savepoint
from django_mq.workflows.models import StepRun, WorkflowRun

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from django_mq.stores.base import Store

#: Values of one statement: SQLite takes few parameters.
CHUNK: Final = 200
RUN: Final = WorkflowRun._meta.db_table
STEP: Final = StepRun._meta.db_table
RUN_COLUMNS: Final = "id, name, graph, input, state, outcome, reason, open_steps, root, parent_id"
STEP_COLUMNS: Final = (
    "s.id, s.run_id, r.root, s.name, s.number, s.state, s.waits, s.failed, s.items, s.message_id, s.result, s.item"
)


class RunRow(NamedTuple):
    id: UUID
    name: str
    graph: str
    input: str
    state: WorkflowState
    outcome: str
    reason: str
    open_steps: int
    root: UUID
    parent_id: int | None


class StepRow(NamedTuple):
    id: int
    run_id: UUID
    root: UUID
    name: str
    number: int
    state: StepState
    waits: int
    failed: int
    items: int | None
    message_id: UUID | None
    result: str | None
    item: str | None


@dataclass(frozen=True, slots=True)
class StepStatements:
    store: Store

    # Values.

    def uuid(self, value: UUID | str | None) -> Any:
        """Return an id as the driver takes it."""
        field = WorkflowRun._meta.get_field("id")
        return None if value is None else field.get_db_prep_value(value, self._connection, prepared=False)

    def time(self, value: datetime) -> Any:
        field = WorkflowRun._meta.get_field("created_at")
        return field.get_db_prep_value(value, self._connection, prepared=False)

    def now(self) -> Any:
        return self.time(clock.now())

    @property
    def _connection(self) -> Any:
        return self.store.database.connection  # type: ignore[attr-defined] # of a database, not of the memory

    # Running them.

    def fetch(self, query: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        database: Any = self.store.database
        with database.alone(), translating(self._connection), self._connection.cursor() as cursor:
            cursor.execute(query, params)
            return list(cursor.fetchall())

    def change(self, query: str, params: Sequence[Any]) -> int:
        """Run a statement that writes; return how many rows it has changed."""
        database: Any = self.store.database
        with database.alone(), translating(self._connection), self._connection.cursor() as cursor:
            cursor.execute(query, params)
            return int(cursor.rowcount)

    def change_many(self, query: str, every: Sequence[Sequence[Any]]) -> None:
        database: Any = self.store.database
        if every:
            with database.alone(), translating(self._connection), self._connection.cursor() as cursor:
                cursor.executemany(query, every)

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo what the block has written if it raises."""
        database: Any = self.store.database
        return savepoint(database)

    # Runs.

    def lock(self, root: UUID) -> None:
        """Lock a workflow with all that belongs to it; what is read afterwards is what others have committed."""
        self.change(f"UPDATE {RUN} SET open_steps = open_steps WHERE id = %s", [self.uuid(root)])

    def run(self, id_: UUID) -> RunRow | None:
        rows = self.fetch(f"SELECT {RUN_COLUMNS} FROM {RUN} WHERE id = %s", [self.uuid(id_)])
        return _run(rows[0]) if rows else None

    def as_now(self, row: RunRow) -> RunRow | None:
        """Return a run as it is now; None if it is gone. Its graph and its input, which may be large, stay."""
        rows = self.fetch(
            f"SELECT state, outcome, reason, open_steps FROM {RUN} WHERE id = %s", [self.uuid(row.id)]
        )
        if not rows:
            return None
        [(state, outcome, reason, open_steps)] = rows
        return row._replace(state=WorkflowState(state), outcome=outcome, reason=reason, open_steps=open_steps)

    def runs_of(self, steps: Collection[int]) -> list[RunRow]:
        """Return the sub-workflows of steps."""
        return [
            _run(row)
            for chunk in _chunks([*steps])
            for row in self.fetch(
                f"SELECT {RUN_COLUMNS} FROM {RUN} WHERE parent_id IN ({_marks(chunk)}) ORDER BY created_at, id",
                chunk,
            )
        ]

    def insert_run(self, row: dict[str, Any]) -> None:
        self.change(
            f"INSERT INTO {RUN} (id, name, version, graph, input, state, reason, outcome, open_steps, step_count,"
            " root, parent_id, key_name, label, created_at, deadline_at, ended_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, '', '', %s, %s, %s, %s, %s, %s, %s, %s, NULL)",
            [
                self.uuid(row["id"]),
                *(row[name] for name in ("name", "version", "graph", "input")),
                WorkflowState.RUNNING.value,
                row["open_steps"],
                row["open_steps"],
                self.uuid(row["root"]),
                row.get("parent_id"),
                row.get("key"),
                row.get("label", ""),
                self.now(),
                self.time(row["deadline_at"]) if row.get("deadline_at") else None,
            ],
        )

    def write_run(self, id_: UUID, **values: Any) -> None:
        names = ", ".join(f"{name} = %s" for name in values)
        self.change(f"UPDATE {RUN} SET {names} WHERE id = %s", [*values.values(), self.uuid(id_)])

    def count_open(self, id_: UUID, difference: int) -> None:
        self.change(f"UPDATE {RUN} SET open_steps = open_steps + %s WHERE id = %s", [difference, self.uuid(id_)])

    # Steps.

    def insert_steps(self, run: UUID, steps: Iterable[tuple[str, int, str, int, str | None, UUID | None]]) -> None:
        """Write steps: name, number, state, what they wait for, item and message."""
        id_ = self.uuid(run)
        rows = [
            (id_, name, number, state, waits, item, self.uuid(message_id))
            for name, number, state, waits, item, message_id in steps
        ]
        for start in range(0, len(rows), CHUNK // 2):
            chunk = rows[start : start + CHUNK // 2]
            values = ", ".join(["(%s, %s, %s, %s, %s, 0, NULL, NULL, %s, '', %s, NULL)"] * len(chunk))
            self.change(
                f"INSERT INTO {STEP} (run_id, name, number, state, waits, failed, items, result, item, reason,"
                f" message_id, ended_at) VALUES {values}",
                [value for row in chunk for value in row],
            )

    def steps(self, run: UUID, names: Collection[str] | None = None, *, number: int | None = -1) -> list[StepRow]:
        """Return steps of a run; all by default, without their items."""
        where, params = "s.run_id = %s", [self.uuid(run)]
        if number is not None:
            where, params = f"{where} AND s.number = %s", [*params, number]
        base = f"SELECT {STEP_COLUMNS} FROM {STEP} s JOIN {RUN} r ON r.id = s.run_id WHERE {where}"
        if names is None:
            return [_step(row) for row in self.fetch(f"{base} ORDER BY s.id", params)]
        return [
            _step(row)
            for chunk in _chunks([*names])
            for row in self.fetch(f"{base} AND s.name IN ({_marks(chunk)}) ORDER BY s.id", [*params, *chunk])
        ]

    def items(self, run: UUID, name: str) -> list[StepRow]:
        """Return the items of a step, in order."""
        base = f"SELECT {STEP_COLUMNS} FROM {STEP} s JOIN {RUN} r ON r.id = s.run_id"
        where = "WHERE s.run_id = %s AND s.name = %s AND s.number >= 0 ORDER BY s.number"
        return [_step(row) for row in self.fetch(f"{base} {where}", [self.uuid(run), name])]

    def states(self, run: UUID, names: Collection[str] | None = None) -> dict[str, StepState]:
        """Return the states of steps of a run."""
        base, id_ = f"SELECT name, state FROM {STEP} WHERE run_id = %s AND number = -1", self.uuid(run)
        if names is None:
            return {name: StepState(state) for name, state in self.fetch(base, [id_])}
        return {
            name: StepState(state)
            for chunk in _chunks([*names])
            for name, state in self.fetch(f"{base} AND name IN ({_marks(chunk)})", [id_, *chunk])
        }

    def step(self, id_: int) -> StepRow | None:
        rows = self.fetch(
            f"SELECT {STEP_COLUMNS} FROM {STEP} s JOIN {RUN} r ON r.id = s.run_id WHERE s.id = %s", [id_]
        )
        return _step(rows[0]) if rows else None

    def of_messages(self, message_ids: Sequence[UUID]) -> list[StepRow]:
        """Return the steps whose messages these are."""
        return [
            _step(row)
            for chunk in _chunks([self.uuid(each) for each in message_ids])
            for row in self.fetch(
                f"SELECT {STEP_COLUMNS} FROM {STEP} s JOIN {RUN} r ON r.id = s.run_id"
                f" WHERE s.message_id IN ({_marks(chunk)}) ORDER BY s.id",
                chunk,
            )
        ]

    def write_steps(self, run: UUID, names: Collection[str], *, number: int = -1, **values: Any) -> None:
        """Write the same values into steps of a run."""
        set_ = ", ".join(f"{name} = %s" for name in values)
        for chunk in _chunks([*names]):
            self.change(
                f"UPDATE {STEP} SET {set_} WHERE run_id = %s AND number = %s AND name IN ({_marks(chunk)})",
                [*values.values(), self.uuid(run), number, *chunk],
            )

    def write_step(self, id_: int, **values: Any) -> None:
        set_ = ", ".join(f"{name} = %s" for name in values)
        self.change(f"UPDATE {STEP} SET {set_} WHERE id = %s", [*values.values(), id_])

    def lower(self, run: UUID, waits: dict[str, int]) -> list[str]:
        """Lower what steps wait for that have not begun; return those that wait for nothing any more."""
        id_ = self.uuid(run)
        by_number: dict[int, list[str]] = {}
        for name, number in waits.items():
            by_number.setdefault(number, []).append(name)
        for number, names in by_number.items():
            for chunk in _chunks(names):
                self.change(
                    f"UPDATE {STEP} SET waits = waits - %s WHERE run_id = %s AND number = -1 AND state = 'waiting'"
                    f" AND name IN ({_marks(chunk)})",
                    [number, id_, *chunk],
                )
        return [
            name
            for chunk in _chunks([*waits])
            for (name,) in self.fetch(
                f"SELECT name FROM {STEP} WHERE run_id = %s AND number = -1 AND state = 'waiting' AND waits <= 0"
                f" AND name IN ({_marks(chunk)}) ORDER BY id",
                [id_, *chunk],
            )
        ]

    def end_step(self, step: StepRow, state: StepState, result: str | None, reason: str) -> StepState | None:
        """Write how the message of a step has ended; return its state, None if it was written before.

        The step is held while sub-workflows that its handler has started run.
        """
        values = [state.value, result, reason[:255], self.now(), step.id]
        if state is StepState.SUCCEEDED and self.change(
            f"UPDATE {STEP} SET state = %s, result = %s, reason = %s, ended_at = %s"
            " WHERE id = %s AND state = 'ready' AND waits <= 0",
            values,
        ):
            return state  # nearly always
        state_ = "%s"
        if state is StepState.SUCCEEDED:
            state_ = f"CASE WHEN waits > 0 THEN '{StepState.HELD.value}' ELSE %s END"
        changed = self.change(
            f"UPDATE {STEP} SET state = {state_}, result = %s, reason = %s,"
            " ended_at = %s WHERE id = %s AND state = 'ready'",
            values,
        )
        if not changed:
            return None
        if state is not StepState.SUCCEEDED:
            return state
        [(found,)] = self.fetch(f"SELECT state FROM {STEP} WHERE id = %s", [step.id])
        return StepState(found)

    def count_items(self, run: UUID, name: str, ended: int, failed: int) -> StepRow | None:
        """Count items that have ended; return the step if these were the last ones.

        The row is locked until the transaction ends, which is soon: this is the last that most ends write.
        """
        self.change(
            f"UPDATE {STEP} SET waits = waits - %s, failed = failed + %s"
            " WHERE run_id = %s AND name = %s AND number = -1",
            [ended, failed, self.uuid(run), name],
        )
        [step] = self.steps(run, [name])
        return step if step.waits <= 0 else None

    def expect_child(self, step_id: int, number: int) -> int:
        """Count sub-workflows that the handler of a step has started; return 0 if it runs no more."""
        return self.change(
            f"UPDATE {STEP} SET waits = waits + %s WHERE id = %s AND state = 'ready'", [number, step_id]
        )

    def count_child(self, step_id: int, *, failed: bool) -> None:
        """Count a sub-workflow that has ended. By differences: the step may end meanwhile, by its message."""
        self.change(
            f"UPDATE {STEP} SET waits = waits - 1, failed = failed + %s WHERE id = %s", [int(failed), step_id]
        )

    def delete_items(self, run: UUID, name: str) -> None:
        self.change(f"DELETE FROM {STEP} WHERE run_id = %s AND name = %s AND number >= 0", [self.uuid(run), name])

    def partly_succeeded(self, run: UUID) -> set[str]:
        """Return the steps that have failed, but for some of their items."""
        query = (
            f"SELECT DISTINCT i.name FROM {STEP} i JOIN {STEP} s"
            " ON s.run_id = i.run_id AND s.name = i.name AND s.number = -1"
            " WHERE i.run_id = %s AND i.number >= 0 AND i.state = 'succeeded'"
            " AND s.state IN ('failed', 'cancelled')"
        )
        return {name for (name,) in self.fetch(query, [self.uuid(run)])}

    def with_messages(self, run: UUID) -> set[str]:
        """Return the steps that have begun once: with a message, items, or sub-workflows."""
        query = (
            f"SELECT s.name FROM {STEP} s WHERE s.run_id = %s AND s.number = -1 AND (s.message_id IS NOT NULL"
            f" OR s.items IS NOT NULL OR EXISTS (SELECT 1 FROM {RUN} c WHERE c.parent_id = s.id))"
        )
        return {name for (name,) in self.fetch(query, [self.uuid(run)])}

    # Messages.

    def dead_reasons(self, message_ids: Sequence[UUID]) -> dict[UUID, str]:
        """Return why messages are dead."""
        return {
            _id(message_id): reason
            for chunk in _chunks([self.uuid(each) for each in message_ids])
            for message_id, reason in self.fetch(
                f"SELECT message_id, dead_reason FROM django_mq_message WHERE message_id IN ({_marks(chunk)})",
                chunk,
            )
            if reason
        }


def _marks(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))


def _chunks(values: Sequence[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(values), CHUNK):
        yield list(values[start : start + CHUNK])


def _id(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(str(value))


def _run(row: tuple[Any, ...]) -> RunRow:
    found = RunRow(*row)
    return found._replace(id=_id(found.id), root=_id(found.root), state=WorkflowState(found.state))


def _step(row: tuple[Any, ...]) -> StepRow:
    found = StepRow(*row)
    message_id = None if found.message_id is None else _id(found.message_id)
    return found._replace(
        run_id=_id(found.run_id), root=_id(found.root), state=StepState(found.state), message_id=message_id
    )
