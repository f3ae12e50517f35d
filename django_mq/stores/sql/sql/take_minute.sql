-- Says that a minute is summed up, unless somebody has.
-- Locks: the new row; waits for another transaction that takes the same minute.
-- Returns: the id if nobody had.
INSERT INTO django_mq_rollup (minute, queue_name, arrived, accepted, expired, removed, failed, newest)
VALUES (%(minute)s, '', 0, 0, 0, 0, 0, %(newest)s)
ON CONFLICT (minute, queue_name) DO NOTHING
RETURNING id
