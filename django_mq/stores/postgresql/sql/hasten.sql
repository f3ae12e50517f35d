-- Leaves sessions whose guarding connection has ended as long as it takes to connect again.
-- Locks: the rows it changes, which lock_guarded.sql has locked. Index: the primary key.
-- Returns: the ids of those that have not guarded again.
UPDATE django_mq_workersession s
SET deadline = {now} + %(reconnect_seconds)s * interval '1 second'
WHERE s.id = ANY(%(ids)s::bigint[]) AND {abandoned}
RETURNING s.id
