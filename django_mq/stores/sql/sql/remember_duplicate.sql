-- Remembers a duplicate id, if its queue remembers any.
-- Locks: nothing but the new row; waits for another transaction that uses the same id. Index: django_mq_duplicateid_once.
-- Returns: the id; no row if the queue remembers none, or remembers this one.
INSERT INTO django_mq_duplicateid (queue_id, dedup_id, message_id, published_at)
SELECT id, %(dedup_id)s, %(message_id)s, {now}
FROM django_mq_queue
WHERE name = %(queue)s AND {remembers_any}
ON CONFLICT (queue_id, dedup_id) DO NOTHING
RETURNING id
