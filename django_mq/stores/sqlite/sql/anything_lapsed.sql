-- Asks whether there is anything to reap: a lapsed session, or a message held by none.
-- Locks: nothing. Index: django_mq_session_deadline, django_mq_message_claimed.
-- Returns: one row if so.
SELECT 1
WHERE EXISTS (SELECT 1 FROM django_mq_workersession WHERE deadline < {now})
   OR EXISTS (
        SELECT 1 FROM django_mq_message held
        WHERE held.state = 2
          AND NOT EXISTS (SELECT 1 FROM django_mq_workersession s WHERE s.id = held.session_id))
