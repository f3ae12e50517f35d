-- Asks what credit consumers of higher priority in other live sessions have, and how much of it is used.
-- Locks: nothing. Index: django_mq_message_claimed for what each session holds.
-- Returns: for each such session its credit, what it has used of it for all its queues together, if they
-- share it, and how many messages of this queue it holds.
SELECT
    sum(c.credit_limit),
    max(CASE WHEN s.kind = 'celery' THEN c.credit_used ELSE 0 END),
    (SELECT count(*) FROM django_mq_message m FORCE INDEX (django_mq_message_claimed)
     WHERE m.state = 2 AND m.queue_id = %(queue_id)s AND m.session_id = c.session_id)
FROM django_mq_consumer c
JOIN django_mq_workersession s ON s.id = c.session_id AND s.deadline > {now}
WHERE c.queue_name = %(queue)s AND c.state <> 'stopping' AND c.session_id <> %(session)s
  AND c.priority > coalesce(
      (SELECT max(mine.priority) FROM django_mq_consumer mine
       WHERE mine.session_id = %(session)s AND mine.queue_name = %(queue)s), 0)
GROUP BY c.session_id
