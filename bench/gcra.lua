-- generic cell rate algorithm: KEYS[1], interval in us; the slot in us
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local head = tonumber(redis.call('GET', KEYS[1]) or 0)
local slot = math.max(head, now)
redis.call('SET', KEYS[1], string.format('%d', slot + ARGV[1]))
return string.format('%d', slot)
