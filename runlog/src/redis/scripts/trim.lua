-- Forgets events below a number. KEYS: meta, events. ARGV: the lowest number to keep.
local m = redis.call('HMGET', KEYS[1], 'head', 'earliest', 'epoch')
if not m[1] then return {'missing'} end
local earliest = math.min(tonumber(ARGV[1]), tonumber(m[1]))
if earliest <= tonumber(m[2]) then return {'ok'} end
local epoch = tonumber(m[3])
while epoch > 1 and tonumber(redis.call('HGET', KEYS[1], 's' .. string.format('%.0f', epoch))) >= earliest do
  epoch = epoch - 1
end
redis.call('XTRIM', KEYS[2], 'MINID', string.format('%.0f-%.0f', epoch, earliest))
redis.call('HSET', KEYS[1], 'earliest', string.format('%.0f', earliest))
return {'ok'}
