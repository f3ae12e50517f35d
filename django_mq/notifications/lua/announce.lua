-- Wakes as many idle sessions of each queue as it has news for, best consumers first, then longest idle.
-- ARGV: prefix, milliseconds for an answer, milliseconds a key is kept; then, for each queue:
-- its name, how many messages, in how many milliseconds one is due (-1 = none), and the kind of notification: n, or
-- b for messages that came back to their place.
-- Returns how many sessions were told.
local prefix, patience, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local tag = '{' .. prefix .. '}:'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Notifications that no session answered in time pass to others.
local function unanswered(notified)
    local late = redis.call('ZRANGEBYSCORE', notified, '-inf', now, 'LIMIT', 0, 100)
    if #late > 0 then
        redis.call('ZREM', notified, unpack(late))
    end
    return #late
end

-- A session must learn of a due time that is earlier than the one that sessions wait for.
local function concerns_due(armed, due)
    if due < 0 then
        return 0
    end
    local at = whole(string.match(text_at(armed) or '', '^%d+'))
    if at and at >= now and at <= now + due then
        return 0
    end
    redis.call('SET', armed, (now + due) .. ' ', 'PX', due + keep)
    return 1
end

local told = 0
for i = 4, #ARGV, 4 do
    local queue = ARGV[i]
    local missed = text_at(tag .. 'missed:' .. queue)
    local left = tonumber(ARGV[i + 1]) + concerns_due(tag .. 'armed:' .. queue, tonumber(ARGV[i + 2]))
    if not whole(missed) then
        -- No session has asked yet, or Redis was emptied since: each session that listens is woken.
        if left > 0 then
            told = told + redis.call('PUBLISH', prefix .. ':q:' .. queue, '1')
        end
    else
        local idle = sorted_set(tag .. 'idle:' .. queue)
        local notified = sorted_set(tag .. 'notified:' .. queue)
        left = left + unanswered(notified)
        while left > 0 do
            local first = redis.call('ZPOPMIN', idle)[1]
            if not first then
                break
            end
            -- A session that has gone, or was notified of another queue's news, is no longer registered.
            if redis.call('DEL', tag .. 'session:' .. first) == 1
                and redis.call('PUBLISH', prefix .. ':s:' .. first, missed .. ' ' .. ARGV[i + 3] .. ':' .. queue) > 0 then
                redis.call('ZADD', notified, now + patience, first)
                redis.call('PEXPIRE', notified, keep)
                left = left - 1
                told = told + 1
            end
        end
        if left > 0 then
            -- The session that registers next sees that this has moved, and looks.
            redis.call('INCR', tag .. 'missed:' .. queue)
        end
    end
end
return told
