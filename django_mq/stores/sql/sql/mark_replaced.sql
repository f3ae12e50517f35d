-- Marks claimed messages that a later value has replaced: whoever gives one back gives it up. Where
-- nobody looks at the mark, the end of its time to live says the same.
-- Locks: the rows it changes. Index: the primary key.
-- Returns: one row per message.
UPDATE django_mq_message SET dead_reason = %(replaced)s, expires_at = {now} WHERE id {in_ids}
{returning_id}
