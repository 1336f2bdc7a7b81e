-- Removes a member of a sorted set, if its score is below a limit. KEYS: the set. ARGV: the member, the limit.
-- Gives 1 if the set does not contain the member afterwards, otherwise 0.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
