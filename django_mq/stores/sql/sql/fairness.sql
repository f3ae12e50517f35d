-- name: fair_queues. Finds the queues that keys share.
-- Locks: nothing. Index: none; the table is small. Returns: their names.
SELECT name FROM django_mq_queue WHERE fair_by <> '' ORDER BY name

-- name: _unplaced_at
{branch}SELECT m.id FROM django_mq_message m {by:django_mq_message_ready}
     WHERE m.state = 1 AND m.queue_id = %(queue_id)s AND m.level = {it} AND m.place = 0
     ORDER BY m.place, m.id LIMIT %(limit)s)

-- name: unplaced. Finds ready messages of a fair queue that have no fair place yet, so many of each level.
-- Locks: nothing. Index: django_mq_message_ready, one probe per level. Returns: ids.
{unplaced_at:9} UNION ALL {unplaced_at:8} UNION ALL {unplaced_at:7} UNION ALL {unplaced_at:6} UNION ALL {unplaced_at:5}
UNION ALL {unplaced_at:4} UNION ALL {unplaced_at:3} UNION ALL {unplaced_at:2} UNION ALL {unplaced_at:1} UNION ALL {unplaced_at:0}

-- name: lock_unplaced. Locks those of some messages that are ready and have no fair place yet.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key. Returns: id, level and headers, in order of
-- arrival.
SELECT id, level, headers{as:text} FROM django_mq_message
WHERE id {in:ids} AND queue_id = %(queue_id)s AND state = 1 AND place = 0
ORDER BY id {skip_locked}

-- name: unplace. Takes the place from messages of a fair queue, which get another.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET place = 0 WHERE id {in:ids} AND state = 1 {returning:id}

-- name: fair_level. Reads how far the keys of a level have come.
-- Locks: nothing. Index: django_mq_fair_seen and django_mq_fair_finish, one probe each. Returns: the greatest present
-- place that was seen, and the greatest finish; null if there is none.
SELECT
    (SELECT max(c.seen) FROM django_mq_faircounter c WHERE c.queue_id = %(queue_id)s AND c.level = %(level)s),
    (SELECT max(c.finish) FROM django_mq_faircounter c WHERE c.queue_id = %(queue_id)s AND c.level = %(level)s)

-- name: fair_head. Reads the first ready messages of a level at or behind a place.
-- Locks: nothing. Index: django_mq_message_ready. Returns: place, and whether the message has come back.
SELECT m.place, m.redelivered FROM django_mq_message m {by:django_mq_message_ready}
WHERE m.state = 1 AND m.queue_id = %(queue_id)s AND m.level = %(level)s AND m.place >= %(seen)s{as:bigint} AND m.place < 0
ORDER BY m.place, m.id LIMIT %(limit)s

-- name: take_counter. Locks the first counter of a key that no other publisher has locked.
-- Locks: the row it returns, waiting for nothing. Index: django_mq_fair_key. Returns: its id; no row if all are locked, or
-- if a lock could fail.
SELECT id FROM django_mq_faircounter {by:django_mq_fair_key}
WHERE queue_id = %(queue_id)s AND level = %(level)s AND fair_key = %(key)s AND {sees_commits}
ORDER BY id LIMIT 1 {skip_locked}

-- name: _sees_commits. Whether a statement sees what was committed before it began. A row that it does not see so must not
-- be locked: that is an error in PostgreSQL.
1 = 1

-- name: fair_counters. Reads the counters of a key; take_counter has run.
-- Locks: nothing. Index: django_mq_fair_key. Returns: id, finish, and sees_commits.
SELECT id, finish, {sees_commits} FROM django_mq_faircounter {by:django_mq_fair_key}
WHERE queue_id = %(queue_id)s AND level = %(level)s AND fair_key = %(key)s
ORDER BY id

-- name: set_counter. Writes how far a key has come.
-- Locks: the row it changes. Index: the primary key. Returns: one row.
UPDATE django_mq_faircounter SET finish = %(finish)s, seen = %(seen)s WHERE id = %(id)s {returning:id}

-- name: add_counter. Writes how far a key has come, in a counter of its own.
-- Locks: nothing but the new row. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_faircounter (queue_id, level, fair_key, finish, seen)
VALUES (%(queue_id)s, %(level)s, %(key)s, %(finish)s, %(seen)s)

-- name: idle_counters. Finds counters that say nothing any more: their keys begin at the present place.
-- Locks: the rows it returns, skipping locked ones. Index: none, and django_mq_fair_seen once per row. Returns: ids.
SELECT c.id FROM django_mq_faircounter c
WHERE c.finish <= (SELECT max(o.seen) FROM django_mq_faircounter o WHERE o.queue_id = c.queue_id AND o.level = c.level)
ORDER BY c.id LIMIT %(limit)s {skip_locked}

-- name: drop_counters. Deletes counters.
-- Locks: the rows it deletes. Index: the primary key. Returns: one row per counter.
DELETE FROM django_mq_faircounter WHERE id {in:ids} {returning:id}

-- name: drop_fairness. Deletes the counters of a queue; drop_queue follows.
-- Locks: the rows it deletes. Index: django_mq_fair_key. Returns: nothing.
DELETE FROM django_mq_faircounter WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
