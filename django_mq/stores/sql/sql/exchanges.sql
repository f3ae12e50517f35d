-- name: declare_exchange. Creates an exchange unless its name is taken.
-- Locks: the new row; waits for another transaction that creates the same exchange. Returns: the id if it was created.
INSERT INTO django_mq_exchange (name, exchange_type, alternate)
VALUES (%(exchange)s, %(exchange_type)s, %(alternate)s)
{unless_taken:name}
{returning:id}

-- name: exchange. Reads an exchange with its bindings, durable and volatile, and those to other exchanges.
-- Locks: nothing. Index: the unique name, django_mq_binding_once and its like. Returns: what the row is, its number,
-- the exchange's type, the pattern, what is bound or the alternate exchange, and the selector; in the order in which
-- they were made.
SELECT 'exchange', e.id, e.exchange_type, '', e.alternate, ''
FROM django_mq_exchange e WHERE e.name = %(exchange)s
UNION ALL
SELECT 'routes', b.id, b.exchange_type, b.pattern, q.name, b.selector
FROM django_mq_binding b JOIN django_mq_queue q ON q.id = b.queue_id WHERE b.exchange = %(exchange)s
UNION ALL
SELECT 'transient', v.id, v.exchange_type, v.pattern, v.queue_name, ''
FROM django_mq_volatilebinding v WHERE v.exchange = %(exchange)s AND v.expires_at > {now}
UNION ALL
SELECT 'exchanges', o.id, '', o.pattern, o.destination, o.selector
FROM django_mq_exchangebinding o WHERE o.exchange = %(exchange)s
ORDER BY 1, 2

-- name: bind_exchange. Binds an exchange to another, or changes the selector of the binding.
-- Locks: the binding's row. Index: django_mq_exchangebinding_once. Returns: nothing.
INSERT INTO django_mq_exchangebinding (exchange, pattern, selector, destination)
VALUES (%(exchange)s, %(pattern)s, %(selector)s, %(destination)s)
ON CONFLICT (exchange, pattern, destination) DO UPDATE SET selector = excluded.selector

-- name: unbind_exchange. Removes a binding between exchanges.
-- Locks: its row. Index: django_mq_exchangebinding_once. Returns: one row if there was one.
DELETE FROM django_mq_exchangebinding
WHERE exchange = %(exchange)s AND pattern = %(pattern)s AND destination = %(destination)s
{returning:id}

-- name: drop_exchange. Deletes an exchange's row; drop_exchange_bindings and drop_routes have run.
-- Locks: the row. Index: the unique name. Returns: one row if it existed.
DELETE FROM django_mq_exchange WHERE name = %(exchange)s {returning:id}

-- name: drop_routes. Deletes the bindings of durable queues to an exchange.
-- Locks: the rows it deletes. Index: django_mq_binding_once. Returns: nothing.
DELETE FROM django_mq_binding WHERE exchange = %(exchange)s

-- name: drop_exchange_bindings. Deletes the bindings from an exchange to others, and from others to it.
-- Locks: the rows it deletes. Index: none for those to it; the table is small. Returns: nothing.
DELETE FROM django_mq_exchangebinding WHERE exchange = %(exchange)s OR destination = %(exchange)s
