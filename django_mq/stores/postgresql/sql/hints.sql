-- name: announce.
-- Takes as many idle sessions of a queue as it has news for, the best consumers first, then those idle longest, and
-- notifies each on the channel of its process: SESSION KIND:QUEUE.
-- Locks: the rows of these sessions, passing over those that others have locked; and where it notifies, the
-- server's notifications for a moment, so it must be a transaction of its own. Finds no session: writes nothing.
-- A process that has ended holds its lock no more, and is passed over. A process that asks is no witness of its own.
-- Index: django_mq_idle_expires, the primary key. Returns: a row for each session that was notified.
DELETE FROM django_mq_idle d
WHERE d.session = ANY(ARRAY(
    SELECT s.session FROM django_mq_idle s
    WHERE s.expires_at > now() AND CASE WHEN %(queue)s::text = ANY (s.queues) THEN {connected:s} ELSE false END
    ORDER BY s.priority DESC, s.since
    LIMIT %(wanted)s::int
    FOR UPDATE SKIP LOCKED))
RETURNING pg_notify(d.channel, d.session || ' ' || %(topic)s::text)

-- name: looks_by. Looks for an idle session of a queue that looks for what is due within so many seconds.
-- Locks: nothing. Index: django_mq_idle_expires. Returns: whether there is one.
SELECT EXISTS (
    SELECT FROM django_mq_idle
    WHERE expires_at > now() AND %(queue)s::text = ANY (queues)
        AND due_at BETWEEN now() AND now() + %(due)s::float8 * interval '1 second')

-- name: _connected.
-- Whether the process of an idle session still holds its lock.
({it}.liveness_lock = %(own_lock)s::int OR NOT pg_try_advisory_xact_lock_shared(28018, {it}.liveness_lock))

-- name: register_idle.
-- Registers a session as idle, or keeps it registered. It waits for what is due in its queues, unless an idle session
-- of these queues looks by then.
-- Locks: the session's row. Index: the primary key, django_mq_idle_expires.
-- Returns: whether it was not registered before, whether it waits for what is due, and in how many seconds the other
-- session looks.
WITH other AS (
    SELECT min(s.due_at) AS due_at FROM django_mq_idle s
    WHERE s.expires_at > now() AND s.session <> %(session)s::text AND s.queues @> %(queues)s::text[]
        AND s.due_at BETWEEN now() - interval '0.1 seconds'
            AND now() + (%(due)s::float8 + 0.005) * interval '1 second'
        AND {connected:s}
), registered AS (
    INSERT INTO django_mq_idle AS i
        (session, channel, liveness_lock, queues, priority, since, due_at, expires_at)
    SELECT %(session)s::text, %(channel)s::text, %(own_lock)s::int, %(queues)s::text[], %(priority)s::int, clock_timestamp(),
        CASE WHEN other.due_at IS NULL THEN now() + %(due)s::float8 * interval '1 second' END,
        now() + %(seconds)s::float8 * interval '1 second'
    FROM other
    ON CONFLICT (session) DO UPDATE SET
        channel = excluded.channel, liveness_lock = excluded.liveness_lock, queues = excluded.queues,
        priority = excluded.priority, due_at = excluded.due_at,
        expires_at = excluded.expires_at
    RETURNING i.xmax = 0 AS anew, i.due_at IS NOT NULL AS waits
)
SELECT r.anew, r.waits, CASE WHEN o.due_at IS NOT NULL THEN greatest(extract(epoch FROM o.due_at - now()), 0)::float8 END
FROM registered r CROSS JOIN other o

-- name: unregister_idle.
-- Ends a session's registration, and removes those that have expired.
-- Locks: these rows. Index: the primary key, django_mq_idle_expires. Returns: nothing.
DELETE FROM django_mq_idle
WHERE session {among:
    SELECT session FROM django_mq_idle WHERE session = %(session)s::text OR expires_at < now()}

-- name: notify_topics.
-- Notifies all that listen to these topics. Sites in two schemas of one database do not hear each other.
-- Locks: the server's notifications for a moment, so it must be a transaction of its own. Returns: how many
-- topics.
SELECT count(pg_notify({topic_channel}, '')) FROM unnest(%(topics)s::text[]) AS given (topic)

-- name: topic_channels. Computes the channels of these topics.
-- Locks: nothing. Returns: their names, in the order of the topics.
SELECT {topic_channel} FROM unnest(%(topics)s::text[]) WITH ORDINALITY AS given (topic, number) ORDER BY number

-- name: _topic_channel.
-- A channel's name has 63 bytes at most, and a topic's may have more.
'django_mq_' || left(encode(sha256(convert_to(current_schema() || ' ' || topic, 'UTF8')), 'hex'), 32)

-- name: notification_usage.
-- Removes from the server's queue of notifications what all sessions have read. If the queue is full, nothing else does.
-- Sessions that listen, and have an old transaction open, fill it.
-- Locks: the server's notifications for a moment. Returns: how full it is, as a part of 1.
SELECT pg_notification_queue_usage()

-- name: hold_listener_lock.
-- Takes the lock by which others see that a process listens; the connection holds it until it ends.
-- Locks: it. Returns: nothing that is used.
SELECT pg_advisory_lock(28018, %(own_lock)s::int), set_config('statement_timeout', %(limit)s::text, false)
