-- Reads what a session is told to do.
-- Locks: nothing. Index: the primary key.
-- Returns: one row, if the session lives.
SELECT conduct, given_credit FROM django_mq_workersession
WHERE id = %(session)s
