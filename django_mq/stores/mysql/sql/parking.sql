-- name: park. Parks ready messages that lock_unheld has locked, for one key.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET {parked_now} WHERE id IN %(ids)s

-- name: first_parked. Locks the first parked messages of a key; free makes them ready.
-- Locks: the rows it returns, skipping locked ones. Index: django_mq_message_parked. Returns: ids.
SELECT p.id FROM django_mq_message p FORCE INDEX (django_mq_message_parked)
WHERE p.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND p.park_key = %(key)s AND p.state = 7
ORDER BY p.level DESC, p.place, p.id LIMIT %(limit)s FOR UPDATE SKIP LOCKED

-- name: woken. Finds parked messages whose time has come; lock_unheld locks them, and free makes them ready.
-- Locks: nothing. Index: django_mq_message_waking, one walk per queue. Returns: ids.
SELECT p.id
FROM django_mq_queue q
JOIN django_mq_message p FORCE INDEX (django_mq_message_waking)
  ON p.queue_id = q.id AND p.parked_until <= {now} AND p.state = 7
WHERE %(every)s OR q.name IN %(queues)s
ORDER BY p.parked_until LIMIT %(limit)s

-- name: free. Makes parked messages ready that are locked.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET {freed} WHERE id IN %(ids)s

-- name: settle_parked. Parks messages that lock_held locked. The columns change from left to right here.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message
SET state = 7, park_key = %(park_key)s,
    parked_until = CASE WHEN %(delay_seconds)s > 0 THEN {ahead:delay_seconds} END,
    attempts = attempts - suspect, redelivered = true, session_id = NULL, claim = NULL, claimed_at = NULL
WHERE id IN %(ids)s

-- name: _next_woken_microseconds
(SELECT timestampdiff(MICROSECOND, {now}, p.parked_until)
 FROM django_mq_message p FORCE INDEX (django_mq_message_waking)
 WHERE p.queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s) AND p.state = 7
   AND p.parked_until IS NOT NULL
 ORDER BY p.parked_until LIMIT 1)
