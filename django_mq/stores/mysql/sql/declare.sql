-- Creates a queue. A name that is taken is an error.
-- Locks: the new row; waits for another transaction that creates the same queue.
-- Returns: the id.
INSERT INTO django_mq_queue (
    name, closed, paused, paused_reason, dropped, created_at,
    {option_columns})
SELECT
    %(name)s, false, false, '', 0, {now},
    {option_values}
