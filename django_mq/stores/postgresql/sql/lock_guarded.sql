-- Locks the sessions that seem to have lost their guarding connection, for a second look: one that
-- has guarded again meanwhile must keep its deadline.
-- Locks: the rows it returns, skipping locked ones: a renewal is under way there.
-- Index: none, there are few sessions.
-- Returns: ids.
SELECT s.id FROM django_mq_workersession s
WHERE {abandoned} AND pg_postmaster_start_time() < {now} - %(grace_seconds)s * interval '1 second'
ORDER BY s.id
FOR UPDATE SKIP LOCKED
