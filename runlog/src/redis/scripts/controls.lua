-- The messages to the owner above a count. KEYS: meta, controls. ARGV: epoch, seen.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'closed')
if not m[1] then return {'missing'} end
if m[1] ~= ARGV[1] then return {'fenced'} end
if m[2] then return {'closed'} end
return {'ok', redis.call('LRANGE', KEYS[2], ARGV[2], -1)}
