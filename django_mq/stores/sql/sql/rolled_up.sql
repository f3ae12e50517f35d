-- Names the minutes since a time that have been summed up.
-- Locks: nothing. Index: django_mq_rollup_once.
-- Returns: the minute and the highest message id when it was summed up, oldest first.
SELECT minute, newest FROM django_mq_rollup WHERE queue_name = '' AND minute >= %(since)s ORDER BY minute
