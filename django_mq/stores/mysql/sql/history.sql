-- name: _ready_at
greatest(coalesce(gone.deliver_at, gone.published_at), gone.published_at, coalesce(gone.released_at, gone.published_at))

-- name: _of_the_gone
FROM django_mq_message gone
JOIN django_mq_queue q ON q.id = gone.queue_id
WHERE gone.id IN %(ids)s AND q.history_days > 0
ORDER BY gone.id

-- name: remember_finished. Remembers what is about to be removed after a verdict, where the queue keeps a history.
-- Locks: the new rows. Index: the primary key. Returns: one row per message.
{finished_row} {of_the_gone}

-- name: remember_removed. Remembers what is about to be removed unheld, where the queue keeps a history.
-- Locks: the new rows. Index: the primary key. Returns: one row per message.
{removed_row} {of_the_gone}
