-- Looks for the earliest scheduled message of the named queues.
-- Locks: nothing. Index: django_mq_message_due, one probe per queue.
-- Returns: seconds until it is due, null when there is none.
{next_due}
