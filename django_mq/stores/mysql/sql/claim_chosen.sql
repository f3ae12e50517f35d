-- Reads chosen messages, which lock_chosen.sql has locked; lease.sql takes them.
-- Locks: nothing more. Index: the primary key.
-- Returns: the messages, in no order.
SELECT {claimed_columns} FROM django_mq_message m WHERE m.id IN %(ids)s
