-- Somebody watches until that time. KEYS: meta. ARGV: until.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'watched')
if not m[1] then return {'missing'} end
if not m[2] or tonumber(m[2]) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[1], 'watched', ARGV[1]) end
return {'ok'}
