-- Moves a session's deadline, and looks for what a lost hint has left lying.
-- Locks: the session's row. Index: the primary key, twice; django_mq_message_ready and _due, one probe for each queue.
-- Returns: the id, whether no older session is renewed by its own worker or its connection has ended, and whether
-- a claim of the session might find something, and what it is told to do; no row when the session was reaped.
UPDATE django_mq_workersession renewed
SET heartbeat_at = {now}, deadline = {now} + %(deadline_seconds)s * interval '1 second',
    held = %(held)s, queues = %(queues)s::jsonb, credit = %(credit)s,
    busy = %(busy)s, slots = %(slots)s, memory_bytes = %(memory_bytes)s
WHERE renewed.id = %(session)s
RETURNING renewed.id, NOT coalesce((
    SELECT NOT s.guarded OR {attended}
    FROM django_mq_workersession s
    WHERE s.id < %(session)s AND s.deadline >= {now}
      AND s.heartbeat_at >= {now} - %(deadline_seconds)s * interval '1 second'
    ORDER BY s.id
    LIMIT 1), false),
    %(look)s::boolean AND EXISTS (
        SELECT 1 FROM django_mq_queue q
        WHERE q.name IN (SELECT jsonb_array_elements_text(%(queues)s::jsonb))
          AND NOT {paused}
          AND (EXISTS (SELECT 1 FROM django_mq_message m WHERE m.queue_id = q.id AND m.state = 1)
            OR EXISTS (SELECT 1 FROM django_mq_message m
                       WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now}))),
    renewed.conduct, renewed.given_credit
