-- Says that a minute is summed up. One that is taken is an error.
-- Locks: the new row; waits for another transaction that takes the same minute.
-- Returns: the id.
INSERT INTO django_mq_rollup (minute, queue_name, arrived, accepted, expired, removed, failed, newest)
VALUES (%(minute)s, '', 0, 0, 0, 0, 0, %(newest)s)
