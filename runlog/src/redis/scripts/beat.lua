-- A sign of life of a replica. KEYS: replicas. ARGV: the replica, the longest silence in milliseconds, expiry.
-- Gives whether the replica was known, then the replicas that have been silent for longer. The clock is the server's.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local before = string.format('(%.0f', now - tonumber(ARGV[2]))
return {known and 'known' or 'new', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before)}
