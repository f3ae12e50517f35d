-- Counts messages in a state that is none of ours, stopping at the limit.
-- Locks: nothing. Index: the four partial indexes of a queue's states: where they hold as many as there are, no row
-- is looked at.
-- Returns: the count.
SELECT CASE
    WHEN (SELECT count(*) FROM django_mq_message)
       = (SELECT count(*) FROM django_mq_message WHERE state = 0)
       + (SELECT count(*) FROM django_mq_message WHERE state = 1)
       + (SELECT count(*) FROM django_mq_message WHERE state = 2)
       + (SELECT count(*) FROM django_mq_message WHERE state = 3)
    THEN 0
    ELSE (SELECT count(*) FROM (SELECT 1 FROM django_mq_message WHERE state NOT IN (0, 1, 2, 3) LIMIT %(limit)s))
END
