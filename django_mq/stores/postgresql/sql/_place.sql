CASE WHEN n.deliver_at IS NULL OR q.due_order = 'keep_place' THEN 0
     ELSE (extract(epoch FROM n.deliver_at) * 1000000)::bigint - 4611686018427387904 END
