-- name: end_run. Writes that the message of a tick has left its queue, or has died. A run that has ended stays as it is,
-- unless its message was redriven, and has run again in its queue: it may lie in a queue of dead letters meanwhile.
-- Locks: the run's row. Index: django_mq_periodicrun_message. Returns: nothing.
UPDATE django_mq_periodicrun SET outcome = %(outcome)s, ended_at = {now}
WHERE message_id = %(message_id)s AND (ended_at IS NULL OR (%(has_run)s AND queue_name = %(queue)s))
