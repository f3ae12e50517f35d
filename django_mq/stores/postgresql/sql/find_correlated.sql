-- Finds the waiting messages, scheduled or ready, that carry one of some correlation ids.
-- Locks: nothing. Index: django_mq_message_corr.
-- Returns: ids.
SELECT id FROM django_mq_message
WHERE correlation_id = ANY(%(correlation_ids)s::text[]) AND state IN (0, 1)
