(q.max_messages IS NOT NULL OR q.max_bytes IS NOT NULL OR q.last_value_key <> '')
