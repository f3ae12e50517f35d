-- Counts messages in a state that is none of ours, stopping at the limit.
-- Locks: nothing. Index: django_mq_message_ready, all of whose entries are looked at; the rows are not.
-- Returns: the count.
SELECT count(*) FROM (
    SELECT 1 FROM django_mq_message FORCE INDEX (django_mq_message_ready)
    WHERE state NOT IN (0, 1, 2, 3) LIMIT %(limit)s
) found
