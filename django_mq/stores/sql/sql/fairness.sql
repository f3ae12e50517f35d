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

-- name: fair_level. Reads the counters of some keys and of their level, and the first ready messages at or behind the
-- greatest present place that was seen.
-- Locks: nothing. Index: django_mq_fair_key and django_mq_message_ready. Returns: 0, key, id, finish, seen and sees_commits of
-- each counter; 1, blank, null, place, null, and whether it has come back, of each message.
{fair_level}

-- name: _fair_level
{fair_level_at:{in_texts:keys}}
-- name: _fair_level_at. {it} says which keys.
SELECT 0, c.fair_key, c.id, c.finish, c.seen, CASE WHEN {sees_commits} THEN 1 ELSE 0 END
FROM django_mq_faircounter c {by:django_mq_fair_key}
WHERE c.queue_id = %(queue_id)s AND c.level = %(level)s AND c.fair_key {it}
UNION ALL
{branch}SELECT 1, '', NULL, m.place, NULL, CASE WHEN m.redelivered THEN 1 ELSE 0 END
    FROM django_mq_message m {by:django_mq_message_ready}
    WHERE m.state = 1 AND m.queue_id = %(queue_id)s AND m.level = %(level)s AND m.place < 0 AND m.place >= coalesce((
        SELECT max(o.seen) FROM django_mq_faircounter o {by:django_mq_fair_key}
        WHERE o.queue_id = %(queue_id)s AND o.level = %(level)s AND o.fair_key = ''), %(first)s)
    ORDER BY m.place, m.id LIMIT %(limit)s)

-- name: _sees_commits. Whether a statement sees what was committed before it began. A row that it does not see so must not
-- be locked: that is an error in PostgreSQL.
1 = 1

-- name: lock_counters. Locks counters that no other publisher has locked.
-- Locks: the rows it returns, waiting for nothing. Index: the primary key. Returns: id, and finish and seen as they are
-- now.
SELECT id, finish, seen FROM django_mq_faircounter WHERE id {in:ids} {skip_locked}

-- name: set_counters. Writes how far keys have come.
-- Locks: the rows it changes, which lock_counters has locked. Index: the primary key. Returns: nothing that is used.
UPDATE django_mq_faircounter AS c SET finish = given.finish, seen = given.seen FROM {given_counters} WHERE c.id = given.id

-- name: add_counters. Writes how far keys have come, in counters of their own.
-- Locks: nothing but the new rows. Index: none. Returns: nothing that is used.
INSERT INTO django_mq_faircounter (queue_id, level, fair_key, finish, seen)
SELECT %(queue_id)s, given.level, given.fair_key, given.finish, given.seen FROM {given_counters}

-- name: idle_counters. Finds counters that say nothing any more: their keys begin at the present place.
-- Locks: the rows it returns, skipping locked ones. Index: none, and django_mq_fair_key once per row. Returns: ids.
SELECT c.id FROM django_mq_faircounter c
WHERE c.finish <= {seen_in_level} AND c.seen < {seen_in_level}
ORDER BY c.id LIMIT %(limit)s {skip_locked}

-- name: _seen_in_level
(SELECT max(o.seen) FROM django_mq_faircounter o
    WHERE o.queue_id = c.queue_id AND o.level = c.level AND o.fair_key = '')

-- name: drop_counters. Deletes counters.
-- Locks: the rows it deletes. Index: the primary key. Returns: one row per counter.
DELETE FROM django_mq_faircounter WHERE id {in:ids} {returning:id}

-- name: drop_fairness. Deletes the counters of a queue; drop_queue follows.
-- Locks: the rows it deletes. Index: django_mq_fair_key. Returns: nothing.
DELETE FROM django_mq_faircounter WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
