-- Asks which duties of upkeep have something to do: reap, promote, expire, trim, take operations over. To be reaped
-- is a lapsed session, and a message that is held in the name of no session.
-- Locks: nothing. Index: django_mq_session_deadline, django_mq_message_claimed, _due and _expiring.
-- Returns: one row of five truths.
SELECT
    EXISTS (SELECT 1 FROM django_mq_workersession WHERE deadline < {now})
    OR EXISTS (
        SELECT 1 FROM django_mq_message held
        WHERE held.state = 2
          AND NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id)),
    EXISTS (
        SELECT 1 FROM django_mq_queue q
        WHERE EXISTS (
            SELECT 1 FROM django_mq_message due
            WHERE due.queue_id = q.id AND due.state = 0 AND due.deliver_at <= {now})),
    EXISTS (
        SELECT 1 FROM django_mq_message old
        WHERE old.expires_at IS NOT NULL AND old.state < 2 AND old.expires_at <= {now}),
    EXISTS (SELECT 1 FROM django_mq_queue ring WHERE {overfull}),
    EXISTS (
        SELECT 1 FROM django_mq_operation operation
        WHERE operation.status = 'running'
          AND julianday(operation.beat_at) < julianday({now}) - %(stalled_seconds)s / 86400.0)
