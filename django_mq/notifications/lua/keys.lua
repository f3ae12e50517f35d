-- What stands before each script: how to read a key that another program may have written.

-- A whole number that Lua keeps exactly, or nil.
local function whole(text)
    return text and #text <= 15 and string.match(text, '^%d+$') and tonumber(text) or nil
end

-- The string in a key, or nil: also where the key holds something else.
local function text_at(key)
    local found = redis.pcall('GET', key)
    return type(found) == 'string' and found or nil
end

-- The key of a sorted set. What is no sorted set is deleted.
local function sorted_set(key)
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'zset' and kind ~= 'none' then
        redis.call('DEL', key)
    end
    return key
end
