-- Holds a lease on. KEYS: meta. ARGV: epoch, until, expiry, the last number that was acknowledged to the owner.
-- Says whether less than half of the expiry is left, and then which lists the run is in.
-- A log that lacks acknowledged events (the server came back without them) is not held or released before it has them again.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'closed', 'thread', 'owner', 'head')
if m[1] ~= ARGV[1] or m[2] then return {'lost'} end
if tonumber(m[5]) < tonumber(ARGV[4]) then return {'behind', m[5]} end
redis.call('HSET', KEYS[1], 'until', ARGV[2])
if redis.call('PTTL', KEYS[1]) * 2 >= tonumber(ARGV[3]) then return {'held'} end
return {'aging', m[3], m[4]}
