-- Creates a queue unless its name is taken.
-- Locks: the new row; waits for another transaction that creates the same queue. SQLite: the database for writing.
-- Returns: the id if it was created.
INSERT INTO django_mq_queue (
    name, closed, paused, paused_reason, dropped, created_at,
    {option_columns})
VALUES (
    %(name)s, false, false, '', 0, {now},
    {option_values})
ON CONFLICT (name) DO NOTHING
RETURNING id
