-- Ends a session's registration, and answers its notifications: it is at work, or leaves.
-- ARGV: prefix, session, then the queues it was notified of. Returns whether it was registered.
local tag = '{' .. ARGV[1] .. '}:'
for i = 3, #ARGV do
    redis.call('ZREM', sorted_set(tag .. 'notified:' .. ARGV[i]), ARGV[2])
end
return redis.call('DEL', tag .. 'session:' .. ARGV[2])
