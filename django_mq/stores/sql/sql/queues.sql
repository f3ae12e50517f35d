-- name: declare. Creates a queue unless its name is taken.
-- Locks: the new row; waits for another transaction that creates the same queue. Returns: the id if it was created.
INSERT INTO django_mq_queue (
    name, closed, paused, paused_reason, dropped, created_at,
    {option_columns})
SELECT %(name)s, false, false, '', 0, {now}, {option_values}
{unless_taken:name}
{returning:id}

-- name: link. Names the dead-letter and expiry queues of a queue that was created before them.
-- Locks: the queue's row. Index: the unique name. Returns: one row.
UPDATE django_mq_queue
SET dead_letter_queue_id = coalesce(
        (SELECT d.id FROM (SELECT id, name FROM django_mq_queue) d WHERE d.name = %(dead_letter_queue)s),
        dead_letter_queue_id
    ),
    expiry_queue_id = coalesce(
        (SELECT e.id FROM (SELECT id, name FROM django_mq_queue) e WHERE e.name = %(expiry_queue)s), expiry_queue_id
    )
WHERE name = %(queue)s
{returning:id}

-- name: queue. Reads one queue.
-- Locks: nothing. Index: its unique name. Returns: the columns of QueueRecord, the options last.
SELECT
    q.id, q.name, q.closed, {paused},
    (SELECT coalesce(min(c.priority) <> max(c.priority), false) FROM django_mq_consumer c WHERE c.queue_name = q.name),
    CASE WHEN q.covered THEN q.declared END, {option_reads}
FROM django_mq_queue q
WHERE q.name = %(queue)s

-- name: queue_use. Asks what keeps a queue from being deleted.
-- Locks: the queue's row, so that the answer holds until the deletion. Index: its unique name. Returns: how many queues
-- name it as their dead-letter or expiry queue.
SELECT (SELECT count(*) FROM django_mq_queue d WHERE d.dead_letter_queue_id = q.id OR d.expiry_queue_id = q.id)
FROM django_mq_queue q WHERE q.name = %(queue)s {for_update}

-- name: lock_if_free. Locks a queue, unless another transaction has locked it.
-- Locks: the queue's row, skipping a locked one. Index: its unique name. Returns: its id; no row if it is locked, or gone.
SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s {skip_locked}

-- name: drop_claim_lock. Deletes the claim lock of a queue; drop_queue follows.
-- Locks: its row. Index: the primary key. Returns: nothing that is used.
DELETE FROM django_mq_turn WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)

-- name: drop_queue. Deletes a queue's row; drop_bindings and drop_duplicates have run.
-- Locks: the row. Index: the queue's unique name. Returns: one row if it existed.
DELETE FROM django_mq_queue WHERE name = %(queue)s {returning:id}

-- name: _ends. Whether a queue may be deleted without an operator.
(q.auto_delete OR q.expires_seconds IS NOT NULL)

-- name: queue_lives. Reads the queues that may be deleted without an operator, or one of them.
-- Locks: nothing. Index: none; the table is small. Returns: the columns of QueueLife, and the time now.
SELECT q.name, q.auto_delete, q.expires_seconds, q.created_at, q.used_at, {now}
FROM django_mq_queue q
WHERE {ends} AND (%(every)s OR q.name {in_texts:names})
ORDER BY q.name

-- name: note_use. Notes that workers use queues now.
-- Locks: the queues' rows. Index: the unique name. Returns: nothing that is used.
UPDATE django_mq_queue SET used_at = {now} WHERE name {in_texts:names} {returning:id}

-- name: consumed. Finds the queues of worker sessions.
-- Locks: nothing. Index: the primary key, or none. Returns: for each session, the names as JSON.
SELECT s.queues{as:text} FROM django_mq_workersession s WHERE %(every)s OR s.id {in:sessions}

-- name: set_paused. Pauses or resumes a queue.
-- Locks: the queue's row, and on MariaDB not its entry in the index of names, where open publishes are. Index: the
-- primary key. Returns: one row if the queue exists.
UPDATE django_mq_queue SET paused = %(paused)s, paused_reason = %(reason)s, paused_until = {ahead:seconds}
WHERE id = %(queue_id)s
{returning:id}

-- name: _paused
(q.paused AND coalesce(q.paused_until > {now}, true))

-- name: paused_queues. Finds which of some queues are paused.
-- Locks: nothing. Index: the unique name. Returns: their names.
SELECT q.name FROM django_mq_queue q WHERE q.name {in_texts:names} AND {paused}

-- name: _locks_publishers
(q.max_messages IS NOT NULL OR q.max_bytes IS NOT NULL OR q.last_value_key <> '')

-- name: bind. Binds a queue to an exchange, or changes the selector of the binding.
-- Locks: the binding's row. Index: django_mq_binding_once. Returns: nothing.
INSERT INTO django_mq_binding (exchange, exchange_type, pattern, selector, queue_id)
SELECT %(exchange)s, %(exchange_type)s, %(pattern)s, %(selector)s, id FROM django_mq_queue WHERE name = %(queue)s
ON CONFLICT (exchange, pattern, queue_id) DO UPDATE SET selector = excluded.selector

-- name: unbind. Removes a binding.
-- Locks: its row. Index: django_mq_binding_once. Returns: one row if there was one.
DELETE FROM django_mq_binding WHERE exchange = %(exchange)s AND pattern = %(pattern)s
  AND queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
{returning:id}

-- name: bindings. Reads the durable bindings of an exchange.
-- Locks: nothing. Index: django_mq_binding_once. Returns: exchange type, pattern, queue and selector.
SELECT b.exchange_type, b.pattern, q.name, b.selector
FROM django_mq_binding b
JOIN django_mq_queue q ON q.id = b.queue_id
WHERE b.exchange = %(exchange)s
ORDER BY b.id

-- name: drop_bindings. Deletes a queue's bindings.
-- Locks: the rows it deletes. Index: the foreign key to the queue. Returns: nothing.
DELETE FROM django_mq_binding WHERE queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)

-- name: free_groups. Takes the groups of a queue, or one, from their owners.
-- Locks: the rows it deletes. Index: django_mq_ownership_group. Returns: one row for each.
DELETE FROM django_mq_ownership
WHERE queue_id = %(queue_id)s AND group_key IS NOT NULL
  AND (%(group)s{as:text} IS NULL OR group_key = %(group)s)
{returning:group_key}
