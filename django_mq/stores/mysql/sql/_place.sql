CASE WHEN n.deliver_at IS NULL OR q.due_order = 'keep_place' THEN 0
     ELSE timestampdiff(MICROSECOND, '1970-01-01', n.deliver_at) - 4611686018427387904 END
