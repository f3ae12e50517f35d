-- Tells a session what to do at its next heartbeat; null leaves it at what it was told, credit 0 at none.
-- Locks: the session's row. Index: the primary key.
-- Returns: one row; none when there is no such session.
UPDATE django_mq_workersession
SET conduct = coalesce(%(conduct)s, conduct),
    given_credit = CASE WHEN %(credit)s IS NULL THEN given_credit ELSE nullif(%(credit)s, 0) END
WHERE id = %(session)s
