-- name: clock. Reads the database's clock.
-- Locks: nothing. Returns: the time.
SELECT {now}

-- name: last_arrival. Asks for the last arrival number that was given, or that can be seen, see last_number.
-- Locks: nothing. Returns: the number, 0 before the first.
{last_number:message}

-- name: last_finished. Asks for the last number of the history that was given, or that can be seen, see last_number.
-- Locks: nothing. Returns: the number, 0 before the first.
{last_number:history}

-- name: newest_message. Reads the highest message id.
-- Locks: nothing. Index: the primary key, its last entry. Returns: the id, null if there is no message.
SELECT max(id) FROM django_mq_message
