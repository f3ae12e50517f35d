-- Ends a session's interest, and answers its notices: it is at work, or leaves.
-- ARGV: prefix, session, then the queues it was told of. Returns whether it was interested.
local tag = '{' .. ARGV[1] .. '}:'
for i = 3, #ARGV do
    redis.call('ZREM', sorted_set(tag .. 'notified:' .. ARGV[i]), ARGV[2])
end
return redis.call('DEL', tag .. 'session:' .. ARGV[2])
