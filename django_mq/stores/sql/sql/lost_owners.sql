-- Finds sessions that own something and are no more: a claim was committed while its session was being reaped.
-- Locks: nothing, so that it waits for no claim. Index: none; the table holds what living sessions own.
-- Returns: their ids.
SELECT DISTINCT o.session_id
FROM django_mq_ownership o
LEFT JOIN django_mq_workersession s ON s.id = o.session_id
WHERE s.id IS NULL
