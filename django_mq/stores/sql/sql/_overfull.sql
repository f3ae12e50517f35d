-- The same as is_exceeded() of Room in django_mq/stores/room.py, for a ring; one that was not counted may be.
ring.overflow = 'ring'
AND (ring.max_messages IS NOT NULL OR ring.max_bytes IS NOT NULL)
AND (ring.counted_at IS NULL OR ring.held_messages > ring.max_messages OR ring.held_bytes > ring.max_bytes)
