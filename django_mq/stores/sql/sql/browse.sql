-- name: _browsed. The columns of Browsed.
m.id, m.message_id, q.name, m.state, m.priority, m.attempts, m.published_at, m.deliver_at, m.expires_at, m.type,
    m.correlation_id, m.group_key, m.content_type, m.content_encoding, m.headers{as:text}, m.body, m.dead_reason, m.level,
    m.place, m.properties{as:text}
-- name: _beyond
(%(after)s{as:bigint} IS NULL OR (m.level <= %(level)s{as:int} AND (
        m.level < %(level)s{as:int} OR (m.place, m.id) > (%(place)s{as:bigint}, %(after)s{as:bigint}))))

-- name: _first_in_state
{branch}SELECT m.id FROM django_mq_message m
     WHERE m.state = {it} AND m.queue_id = (SELECT id FROM q) AND {it} {in:states} AND {beyond}
     ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s)

-- name: browse. Reads messages of one queue in delivery order, beyond a given position.
-- Locks: nothing. Index: django_mq_message_ready for ready ones; of the other states, which have no index in delivery
-- order, it sorts all that the queue holds. Returns: the columns of Browsed.
WITH q AS (
    SELECT id, name FROM django_mq_queue WHERE name = %(queue)s
), head AS MATERIALIZED (
    {first_in_state:0}
    UNION ALL
    {first_in_state:1}
    UNION ALL
    {first_in_state:2}
    UNION ALL
    {first_in_state:3}
    UNION ALL
    {first_in_state:7}
)
SELECT {browsed}
FROM head
CROSS JOIN q
JOIN django_mq_message m ON m.id = head.id
ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s

-- name: arrivals. Reads messages of one queue, in any state, in the order of their arrival.
-- Locks: nothing. Index: the primary key; passes what has arrived in other queues. m.queue_id + 0 keeps the walk on it,
-- for any share of the table. Returns: the columns of Browsed.
SELECT {browsed}
FROM django_mq_message m {by:PRIMARY}
CROSS JOIN (SELECT id, name FROM django_mq_queue WHERE name = %(queue)s) q
WHERE m.id > %(after)s AND m.queue_id + 0 = q.id
ORDER BY m.id LIMIT %(limit)s

-- name: _waiting_message
SELECT {browsed}
FROM django_mq_message m
JOIN django_mq_queue q ON q.id = m.queue_id

-- name: find_correlated. Reads the waiting messages, scheduled, ready or parked, that have one of some correlation ids.
-- Locks: nothing. Index: django_mq_message_corr. Returns: the columns of Browsed.
{waiting_message} WHERE m.correlation_id {in_texts:correlation_ids} AND m.state IN (0, 1, 7)

-- name: find_identified. Reads the waiting messages, scheduled, ready or parked, of some message ids, given as hex digits.
-- Locks: nothing. Index: django_mq_message_once. Returns: the columns of Browsed.
{waiting_message} WHERE m.message_id {in_uuids:message_ids} AND m.state IN (0, 1, 7)

-- name: counts. Counts each state of each queue, every count stopping at the limit.
-- Locks: nothing. Index: django_mq_message_due, _ready, _claimed, _dead, _parked; at most limit entries of each. The order makes
-- it walk the index of each state, for any statistics; for the dead the range does, because the order of ids
-- alone would be the primary key's too. Returns: name, scheduled, ready, claimed, dead, and how long in seconds a
-- message has been waiting that could be delivered, at least: the longest of the ready ones that are read, and of the
-- scheduled ones that are due; how many of the scheduled ones are due, and how many of those due first are retrying:
-- as no index has their attempts, or the time since when a message is ready, so many rows are read. Of the ready ones
-- these are, in each level, the first due ones and the first others, which stand behind; of both, the first that has not
-- come back, as it was ready before all behind it, so that no number of retries hides a backlog; and in a sorted queue the
-- last ones, which may wait for ever. At the end, how many are parked.
SELECT
    q.name,
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 ORDER BY m.deliver_at LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 1 ORDER BY m.level DESC, m.place, m.id LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 2 ORDER BY m.session_id LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id BETWEEN q.id AND q.id AND m.state = 3 ORDER BY m.queue_id, m.id LIMIT %(limit)s) c),
    {longest_waiting},
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 AND m.deliver_at <= {now} ORDER BY m.deliver_at LIMIT %(limit)s) c),
    (SELECT count(*) FROM (SELECT m.attempts FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 0 ORDER BY m.deliver_at LIMIT %(retrying)s) c WHERE c.attempts > 0),
    (SELECT count(*) FROM (SELECT 1 FROM django_mq_message m
        WHERE m.queue_id = q.id AND m.state = 7 ORDER BY m.park_key LIMIT %(limit)s) c)
FROM django_mq_queue q
WHERE %(every)s OR q.name {in_texts:names}
ORDER BY q.name

-- name: count_unknown. Counts messages in an unknown state, stopping at the limit.
-- Locks: nothing. Index: none, as none holds these: every row is looked at once. On MariaDB and MySQL
-- django_mq_message_ready, all of whose entries are looked at, and no row. Returns: the count.
SELECT count(*) FROM (
    SELECT 1 FROM django_mq_message {by:django_mq_message_ready} WHERE state NOT IN (0, 1, 2, 3, 7) LIMIT %(limit)s
) found

-- name: _queues_in_state. The queues that have messages in a state: one entry of its index for each, as every step asks
-- for the next key behind the last one.
in_state_{it}(id) AS (
    SELECT min(queue_id) FROM django_mq_message WHERE state = {it}
    UNION ALL
    SELECT (SELECT min(m.queue_id) FROM django_mq_message m WHERE m.state = {it} AND m.queue_id > in_state_{it}.id)
    FROM in_state_{it} WHERE in_state_{it}.id IS NOT NULL
)

-- name: occupied. Finds the queue ids of all messages, also of queues that do not exist.
-- Locks: nothing. Index: the partial indexes of a queue's states. Returns: the queues' ids.
WITH RECURSIVE {queues_in_state:0}, {queues_in_state:1}, {queues_in_state:2}, {queues_in_state:3}, {queues_in_state:7}
SELECT id FROM in_state_0 WHERE id IS NOT NULL
UNION
SELECT id FROM in_state_1 WHERE id IS NOT NULL
UNION
SELECT id FROM in_state_2 WHERE id IS NOT NULL
UNION
SELECT id FROM in_state_3 WHERE id IS NOT NULL
UNION
SELECT id FROM in_state_7 WHERE id IS NOT NULL
