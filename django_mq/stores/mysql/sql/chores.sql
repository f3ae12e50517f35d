-- Asks which duties of upkeep have something to do: reap, promote, expire, trim, take operations over. To be reaped
-- is a lapsed session, unless the server has just started, and a message that is held in the name of no session.
-- Locks: nothing. Index: django_mq_session_deadline, django_mq_message_claimed, _due and _expiring.
-- Returns: one row of five truths.
SELECT
    %(running_seconds)s > %(grace_seconds)s
    AND EXISTS (SELECT 1 FROM django_mq_workersession WHERE deadline < {now})
    OR EXISTS (
        SELECT 1 FROM django_mq_message held FORCE INDEX (django_mq_message_claimed)
        LEFT JOIN django_mq_workersession s ON s.id = held.session_id
        WHERE held.session_id > 0 AND held.state = 2 AND s.id IS NULL),
    EXISTS (
        SELECT 1 FROM django_mq_queue q
        JOIN django_mq_message due FORCE INDEX (django_mq_message_due)
          ON due.queue_id = q.id AND due.state = 0 AND due.deliver_at <= {now}),
    EXISTS (
        SELECT 1 FROM django_mq_message old FORCE INDEX (django_mq_message_expiring)
        WHERE old.state IN (0, 1) AND old.expires_at <= {now}),
    EXISTS (SELECT 1 FROM django_mq_queue ring WHERE {overfull}),
    EXISTS (
        SELECT 1 FROM django_mq_operation operation
        WHERE operation.status = 'running'
          AND operation.beat_at < {now} - INTERVAL %(stalled_seconds)s SECOND)
