-- Removes a binding.
-- Locks: its row. Index: django_mq_binding_once.
-- Returns: one row if there was one.
DELETE FROM django_mq_binding
WHERE exchange = %(exchange)s AND pattern = %(pattern)s
  AND queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
RETURNING id
