-- name: end_run. Writes that the message of a tick has left its queue, or has died.
-- Locks: the run's row. Index: django_mq_periodicrun_message. Returns: nothing.
UPDATE django_mq_periodicrun SET outcome = %(outcome)s, ended_at = {now} WHERE message_id = %(message_id)s
