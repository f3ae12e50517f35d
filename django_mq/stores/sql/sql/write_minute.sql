-- Writes what one minute brought to one queue.
-- Locks: the new row.
-- Returns: nothing.
INSERT INTO django_mq_rollup (
    minute, queue_name, arrived, accepted, expired, removed, failed, redelivered, wait_p50, wait_p95, run_p50, run_p95)
VALUES (
    %(minute)s, %(queue)s, %(arrived)s, %(accepted)s, %(expired)s, %(removed)s, %(failed)s, %(redelivered)s,
    %(wait_p50)s, %(wait_p95)s, %(run_p50)s, %(run_p95)s)
