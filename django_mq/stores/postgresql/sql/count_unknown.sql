-- Counts messages in a state that is none of ours, stopping at the limit.
-- Locks: nothing. Index: none; every row is looked at once, as no index holds these.
-- Returns: the count.
SELECT count(*) FROM (SELECT 1 FROM django_mq_message WHERE state NOT IN (0, 1, 2, 3) LIMIT %(limit)s) found
