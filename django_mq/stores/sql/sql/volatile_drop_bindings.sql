-- Deletes the bindings of a volatile queue.
-- Locks: the rows it deletes. No index: the table is small by design.
-- Returns: nothing.
DELETE FROM django_mq_volatilebinding WHERE queue_name = %(queue)s
