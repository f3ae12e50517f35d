-- Finds the sessions whose deadline has passed. A database that has just started gives
-- everybody one deadline of grace: they could not renew while it was down.
-- Locks: the sessions' rows, skipping those that another reaper or a renewal holds.
-- Index: django_mq_session_deadline.
-- Returns: id and name.
SELECT id, name FROM django_mq_workersession
WHERE deadline < {now} AND %(running_seconds)s > %(grace_seconds)s
ORDER BY id
FOR UPDATE SKIP LOCKED
