-- Registers a session as idle in its queues, or keeps it registered; says what it has missed and what it must wait for.
-- ARGV: prefix, session, milliseconds the registration lasts, milliseconds a key is kept, consumer priority,
-- milliseconds until the session's next due message (-1 = none, -2 = others see to it); then the queues.
-- Returns in how many milliseconds this session must look because something is due, then in how many it must
-- ask again because another one does (-1 = never), then how often each queue's news found no idle session: if that
-- has changed, something may be waiting.
local prefix, session = ARGV[1], ARGV[2]
local lasts, keep, priority, due = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local tag = '{' .. prefix .. '}:'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- So late, in milliseconds, another session may be before this one takes its part.
local patience = 100

local anew = redis.call('SET', tag .. 'session:' .. session, '1', 'PX', lasts, 'NX')
if not anew then
    redis.call('PEXPIRE', tag .. 'session:' .. session, lasts)
end

local function alive(other)
    return redis.call('EXISTS', tag .. 'session:' .. other) == 1
end

local function register(idle)
    -- In microseconds; a priority outweighs a hundred days.
    local score = clock[1] * 1000000 + clock[2] - priority * 1e13
    if anew then
        redis.call('ZADD', idle, score, session)
    else
        redis.call('ZADD', idle, 'NX', score, session)
    end
    redis.call('PEXPIRE', idle, keep)
    -- The dead are idle longest: each session that registers clears away up to two of them.
    for _, other in ipairs(redis.call('ZRANGE', idle, 0, 1)) do
        if not alive(other) then
            redis.call('ZREM', idle, other)
        end
    end
end

local function missed(queue)
    local key, notified = tag .. 'missed:' .. queue, sorted_set(tag .. 'notified:' .. queue)
    if not whole(text_at(key)) then
        -- A number that no session has seen before: Redis was emptied, or another program wrote here.
        redis.call('SET', key, now)
    end
    redis.call('ZREM', notified, session)
    local late = redis.call('ZREMRANGEBYSCORE', notified, '-inf', now)
    local count = late > 0 and redis.call('INCR', key) or tonumber(redis.call('GET', key))
    redis.call('PEXPIRE', key, keep)
    return count
end

-- Which session waits for what is due in a queue: when this session must look, and when another one does.
local function share(armed)
    local at, waiter = string.match(text_at(armed) or '', '^(%d+) (.*)$')
    at = whole(at)
    if due == -1 then
        if waiter == session then
            redis.call('DEL', armed)
        end
        return nil, nil
    end
    local mine = due == -2 and at or now + due
    if at and at >= now - patience and at <= mine + 5 and waiter ~= session and (waiter == '' or alive(waiter)) then
        return nil, math.max(at - now, 0)
    end
    if due == -2 and not at then
        return nil, nil
    end
    redis.call('SET', armed, mine .. ' ' .. session, 'PX', math.max(mine - now, 0) + keep)
    return math.max(mine - now, 0), nil
end

local function earlier(one, other)
    return one and other and math.min(one, other) or one or other
end

local look, ask
local answer = {-1, -1}
for i = 7, #ARGV do
    register(sorted_set(tag .. 'idle:' .. ARGV[i]))
    table.insert(answer, missed(ARGV[i]))
    local mine, others = share(tag .. 'armed:' .. ARGV[i])
    look, ask = earlier(look, mine), earlier(ask, others)
end
answer[1], answer[2] = look or -1, ask or -1
return answer
