-- Finds the waiting messages, scheduled or ready, that carry one of some correlation ids.
-- Locks: nothing. Index: django_mq_message_corr.
-- Returns: ids.
SELECT id FROM django_mq_message
WHERE correlation_id IN (SELECT value FROM json_each(%(correlation_ids)s)) AND state IN (0, 1)
