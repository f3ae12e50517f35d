CASE WHEN q.kind = 'fifo' THEN 0
     ELSE greatest(0, least(q.levels - 1, n.priority - (5 - (q.levels + 1) / 2))) END
