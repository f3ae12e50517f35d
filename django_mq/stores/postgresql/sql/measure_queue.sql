-- Counts a queue's messages and the bytes of their bodies: all of them, so it is asked for rarely.
-- Locks: nothing. Index: the four partial indexes of a queue's states.
-- Returns: messages and bytes.
SELECT count(*), coalesce(sum(size_bytes), 0) FROM (
    SELECT octet_length(body) AS size_bytes FROM django_mq_message WHERE state = 0 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT octet_length(body) AS size_bytes FROM django_mq_message WHERE state = 1 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT octet_length(body) AS size_bytes FROM django_mq_message WHERE state = 2 AND queue_id = %(queue_id)s
    UNION ALL
    SELECT octet_length(body) AS size_bytes FROM django_mq_message WHERE state = 3 AND queue_id = %(queue_id)s
) counted
