-- Whether the statement sees every queue that was deleted before it began. Above READ COMMITTED a transaction sees the queues
-- of its own beginning. So a statement that writes messages locks the queue there, which fails where the queue has been
-- deleted since.
current_setting('transaction_isolation') = 'read committed'
