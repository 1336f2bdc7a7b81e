-- Holds a lease on. KEYS: meta. ARGV: epoch, until, expiry.
-- Says whether less than half of the expiry is left, and then which lists the run is in.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'closed', 'thread', 'owner')
if m[1] ~= ARGV[1] or m[2] then return {'lost'} end
redis.call('HSET', KEYS[1], 'until', ARGV[2])
if redis.call('PTTL', KEYS[1]) * 2 >= tonumber(ARGV[3]) then return {'held'} end
return {'aging', m[3], m[4]}
