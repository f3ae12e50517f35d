-- Locks and reads those of the chosen messages that are still ready; lease.sql takes them.
-- Locks: the rows it returns, skipping locked ones. Index: the primary key.
-- Returns: the messages, in no order.
SELECT {claimed_columns} FROM django_mq_message m WHERE m.id IN %(ids)s AND m.state = 1
FOR UPDATE SKIP LOCKED
