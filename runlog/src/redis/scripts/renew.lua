-- Holds a lease on. KEYS: meta. ARGV: epoch, until.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'closed')
if m[1] ~= ARGV[1] or m[2] then return 0 end
redis.call('HSET', KEYS[1], 'until', ARGV[2])
return 1
