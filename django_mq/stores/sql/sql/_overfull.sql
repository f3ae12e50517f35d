ring.overflow = 'ring'
AND (ring.max_messages IS NOT NULL OR ring.max_bytes IS NOT NULL)
AND (ring.counted_at IS NULL OR ring.held_messages > ring.max_messages OR ring.held_bytes > ring.max_bytes)
