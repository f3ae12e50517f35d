-- Finds a chunk of messages of a queue that nobody holds, none newer than an id.
-- Locks: nothing. Index: django_mq_message_ready, which begins with queue and state.
-- Returns: ids.
(SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
 WHERE m.state = 1 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
   AND m.id <= %(newest)s LIMIT %(limit)s)
UNION ALL
(SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
 WHERE m.state = 0 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
   AND m.id <= %(newest)s LIMIT %(limit)s)
UNION ALL
(SELECT m.id FROM django_mq_message m FORCE INDEX (django_mq_message_ready)
 WHERE m.state = 3 AND m.queue_id = (SELECT id FROM django_mq_queue WHERE name = %(queue)s)
   AND m.id <= %(newest)s LIMIT %(limit)s)
LIMIT %(limit)s
