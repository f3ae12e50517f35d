-- Finds unheld messages that are not in a queue yet, to be moved there.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key, django_mq_message_once.
-- Returns: id, message id, bytes of the body, headers and state, in delivery order.
SELECT n.id, n.message_id, octet_length(n.body), n.headers, n.state
FROM django_mq_message n
WHERE n.id IN %(ids)s AND n.state <> 2 AND n.queue_id <> %(queue_id)s
  AND NOT EXISTS (
    SELECT 1 FROM django_mq_message t WHERE t.message_id = n.message_id AND t.queue_id = %(queue_id)s)
ORDER BY n.level DESC, n.place, n.id
FOR UPDATE SKIP LOCKED
