-- Finds what else is there with a key, and was not replaced: scheduled for another attempt, ready or claimed.
-- Locks: nothing; runs inside the write transaction. Index: django_mq_message_value.
-- Returns: id and state.
SELECT id, state FROM django_mq_message
WHERE queue_id = %(queue_id)s AND value_key = %(key)s AND state < 3 AND dead_reason <> %(replaced)s AND id <> %(newest)s
