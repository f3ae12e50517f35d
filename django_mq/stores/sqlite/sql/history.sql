-- name: _ready_at
max(coalesce(gone.deliver_at, gone.published_at), gone.published_at, coalesce(gone.released_at, gone.published_at))
-- name: _readable_headers. Headers that are no JSON, written by hand, which the history would refuse, become the text
-- of a header.
CASE WHEN json_valid(gone.headers) THEN gone.headers ELSE json_object('x-damaged-headers', gone.headers) END

-- name: remember_finished. Remembers in the history what settle_finished is about to remove, where the queue keeps one.
-- Locks: the database for writing. Index: the primary key. Fenced by session and claim token. Returns: nothing.
{finished_row} {held} CROSS JOIN django_mq_queue q ON q.id = gone.queue_id AND q.history_days > 0

-- name: remember_removed. Remembers in the history what remove is about to remove, where the queue keeps one.
-- Locks: the database for writing. Index: the primary key. Returns: nothing.
{removed_row}
FROM django_mq_message gone
JOIN django_mq_queue q ON q.id = gone.queue_id
WHERE gone.id {in:ids} AND gone.state <> 2 AND q.history_days > 0 AND (%(reason)s IS NULL OR gone.dead_reason = %(reason)s)

-- name: remember_moved. Remembers in the history what move is about to move, where the queue keeps one.
-- Locks: the database for writing. Index: the primary key, django_mq_message_once. Returns: nothing.
{removed_row}
FROM django_mq_message gone
JOIN django_mq_queue q ON q.id = gone.queue_id AND q.history_days > 0
JOIN django_mq_queue target ON target.name = %(target)s AND target.id <> q.id
WHERE gone.id {in:ids} AND gone.state <> 2
  AND NOT EXISTS (
    SELECT 1 FROM django_mq_message t WHERE t.message_id = gone.message_id AND (
        t.queue_id = target.id OR (t.id {in:ids} AND t.state <> 2 AND t.id < gone.id)))
