-- Remembers a duplicate id, if its queue remembers any.
-- Locks: the new row; waits for another transaction that uses the same id. Index: django_mq_duplicateid_once.
-- Returns: the id; an id that is taken is an error.
INSERT INTO django_mq_duplicateid (queue_id, dedup_id, message_id, published_at)
SELECT id, %(dedup_id)s, %(message_id)s, {now}
FROM django_mq_queue
WHERE name = %(queue)s AND {remembers_any}
