-- Sends a message to the owner. KEYS: meta, controls. ARGV: most, message with its nonce, expiry.
-- What is there already (an answer that was lost on the way) is not added twice, wherever it stands: others may have sent since.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'closed')
if not m[1] then return {'missing'} end
if m[2] then return {'closed'} end
if redis.call('LPOS', KEYS[2], ARGV[2], 'RANK', '-1') then return {'ok'} end
if redis.call('LLEN', KEYS[2]) >= tonumber(ARGV[1]) then return {'full'} end
local sent = redis.call('RPUSH', KEYS[2], ARGV[2])
if sent == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
redis.call('PUBLISH', string.sub(KEYS[1], 1, -6), 'C ' .. sent .. '\n')
return {'ok'}
