-- name: store_result. Writes the state and the result of a Celery task, in place of the last ones; but a success
-- stays. The state is set last: the other columns read the old one.
-- Locks: the result's row. Index: task_id. Returns: one row, or two where it replaces one.
INSERT INTO django_mq_result ({result_columns})
VALUES ({result_values})
ON DUPLICATE KEY UPDATE
    message_id = if(status = 'SUCCESS', message_id, VALUES(message_id)),
    result = if(status = 'SUCCESS', result, VALUES(result)),
    content_type = if(status = 'SUCCESS', content_type, VALUES(content_type)),
    content_encoding = if(status = 'SUCCESS', content_encoding, VALUES(content_encoding)),
    traceback = if(status = 'SUCCESS', traceback, VALUES(traceback)),
    children = if(status = 'SUCCESS', children, VALUES(children)),
    group_id = if(status = 'SUCCESS', group_id, VALUES(group_id)),
    parent_id = if(status = 'SUCCESS', parent_id, VALUES(parent_id)),
    name = if(status = 'SUCCESS', name, VALUES(name)),
    args = if(status = 'SUCCESS', args, VALUES(args)),
    kwargs = if(status = 'SUCCESS', kwargs, VALUES(kwargs)),
    worker = if(status = 'SUCCESS', worker, VALUES(worker)),
    queue = if(status = 'SUCCESS', queue, VALUES(queue)),
    retries = if(status = 'SUCCESS', retries, VALUES(retries)),
    stamps = if(status = 'SUCCESS', stamps, VALUES(stamps)),
    done_at = if(status = 'SUCCESS', done_at, VALUES(done_at)),
    expires_at = if(status = 'SUCCESS', expires_at, VALUES(expires_at)),
    status = if(status = 'SUCCESS', status, VALUES(status))
