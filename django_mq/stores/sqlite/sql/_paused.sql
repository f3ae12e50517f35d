q.paused AND coalesce(q.paused_until > {now}, 1)
