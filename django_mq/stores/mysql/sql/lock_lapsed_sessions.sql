-- Finds the sessions whose deadline has passed, but for the one in whose name this is asked.
-- A database that has just started gives everybody one deadline of grace: they could not
-- renew while it was down.
-- Locks: the sessions' rows, skipping those that another reaper or a renewal holds.
-- Index: django_mq_session_deadline.
-- Returns: id and name.
SELECT id, name FROM django_mq_workersession
WHERE deadline < {now} AND id <> %(spare)s AND %(running_seconds)s > %(grace_seconds)s
ORDER BY id
FOR UPDATE SKIP LOCKED
