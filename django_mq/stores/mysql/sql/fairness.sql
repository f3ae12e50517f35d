-- name: set_counters. Writes how far keys have come.
-- Locks: the rows it changes, which lock_counters has locked. Index: the primary key. Returns: nothing that is used.
UPDATE {given_counters} STRAIGHT_JOIN django_mq_faircounter c FORCE INDEX (PRIMARY) ON c.id = given.id
SET c.finish = given.finish, c.seen = given.seen
