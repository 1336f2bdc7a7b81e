-- Keeps a note. KEYS: meta. ARGV: epoch, field, value, weight, most bytes.
-- What is there already (an answer that was lost on the way) is not counted twice.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'closed', 'bytes', ARGV[2])
if not m[1] then return {'missing'} end
if m[1] ~= ARGV[1] then return {'fenced'} end
if m[2] then return {'closed'} end
if m[4] == ARGV[3] then return {'ok'} end
local bytes = tonumber(m[3]) + tonumber(ARGV[4])
if bytes > tonumber(ARGV[5]) then return {'bytes'} end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3], 'bytes', string.format('%.0f', bytes))
return {'ok'}
