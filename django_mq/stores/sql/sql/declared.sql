-- name: declaring_queues. Finds the queues that declare selectors, or have.
-- Locks: nothing. Index: none; the table is small. Returns: id, name, the selectors, the number of the list that messages
-- are asked by, and whether all have been asked.
SELECT q.id, q.name, q.selectors, q.declared, q.covered FROM django_mq_queue q WHERE {declaring} ORDER BY q.name

-- name: _declaring
(q.selectors <> '' OR q.declared IS NOT NULL)

-- name: declare_selectors. Begins to ask messages by another list of selectors, or none any more.
-- Locks: the queue's row, unless a publisher has locked it. Index: the primary key. Returns: one row if that was done; none
-- if the selectors have changed since.
UPDATE django_mq_queue SET declared = %(mark)s, covered = false
WHERE id = (SELECT id FROM django_mq_queue WHERE id = %(queue_id)s AND selectors = %(selectors)s {skip_locked})
{returning:id}

-- name: note_covered. Notes that all messages have been asked.
-- Locks: the queue's row, unless a publisher has locked it. Index: the primary key. Returns: one row if that was done; none
-- if the list has changed since.
UPDATE django_mq_queue SET covered = true
WHERE id = (SELECT id FROM django_mq_queue WHERE id = %(queue_id)s AND declared = %(mark)s {skip_locked})
{returning:id}

-- name: part_end. Finds the last of so many messages behind an id, of all queues.
-- Locks: nothing. Index: the primary key. Returns: its id, or null.
SELECT max(part.id) FROM (
    SELECT id FROM django_mq_message WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
) part

-- name: unasked. Finds the messages of a queue in a part of the table that were not asked by this list.
-- Locks: nothing. Index: the primary key. Returns: ids.
SELECT id FROM django_mq_message
WHERE id > %(after)s AND id <= %(last)s AND queue_id = %(queue_id)s
  AND (meets IS NULL OR meets < %(mark)s OR meets >= %(end)s)

-- name: unasked_ready. Finds ready messages of a queue that were not asked.
-- Locks: nothing. Index: django_mq_message_meets. Returns: ids.
SELECT id FROM django_mq_message WHERE state = 1 AND queue_id = %(queue_id)s AND meets = 0 LIMIT %(limit)s

-- name: lock_to_ask. Locks messages of a queue.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key. Returns: ids.
SELECT id FROM django_mq_message WHERE id {in:ids} AND queue_id = %(queue_id)s ORDER BY id {skip_locked}

-- name: set_meets. Writes which declared selector matches some messages, unless the list of their queue has changed.
-- Locks: the rows it changes. Index: the primary key. Returns: one row per message.
UPDATE django_mq_message SET meets = %(meets)s
WHERE id {in:ids}
  AND queue_id = (SELECT q.id FROM django_mq_queue q WHERE q.name = %(queue)s AND q.declared = %(mark)s)
{returning:id}
