"""What differs between the stores: one flag, one question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Code asks a flag and never the vendor's name."""

    #: May several sessions claim at the same moment without waiting for each other?
    concurrent_claims: bool
    #: Does a message survive the process?
    durable: bool = True
    #: Can the database notice at once that a worker's connection has ended? (see Store.guard)
    notices_ends: bool = False
    #: Can another process's commit be noticed without a query? (see Store.change_marker)
    notices_changes: bool = False
    #: May a second connection write while this thread holds an open transaction?
    concurrent_writers: bool = True
    #: Has each table settings of its own for how it is kept? (see migration 0005)
    has_table_settings: bool = False
    #: Do writers wait for an index to be built, unless it is built outside any transaction? (see migration 0011)
    builds_indexes_apart: bool = False
    #: Module and class with which the benchmark does the same work past us, to compare; empty where there is none.
    raw_limits: tuple[str, str] | None = None
    #: Can the benchmark have tables of its own beside the site's? (see benchmarks.schema)
    has_schemas: bool = False
    #: May an open connection be inherited over a fork, if only to be abandoned there?
    crosses_forks: bool = True
    #: May a consumer ask for some messages only (by a selector, by credit for bytes), decline one, and be woken?
    serves_consumers: bool = False
    #: Does the renewal of a session say whether something waits for it, so that it need not ask apart?
    looks_when_renewed: bool = False
