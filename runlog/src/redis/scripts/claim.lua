-- One of several takes a key. KEYS: claim. ARGV: value, now, until. Gives the value that holds it.
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return held end
if tonumber(ARGV[3]) > tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[3])
else
  redis.call('DEL', KEYS[1])
end
return ARGV[1]
