-- Takes a lapsed lease. KEYS: meta, events. ARGV: nonce, now, until, the replica, expiry.
-- The entry `<epoch>-0` is the fence: the server itself refuses any smaller id after it.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'until', 'closed', 'head', 'nonce')
if not m[1] then return {'missing'} end
if m[3] then return {'closed'} end
if m[5] == ARGV[1] then return {'ok', m[1], m[4]} end
if tonumber(m[2]) >= tonumber(ARGV[2]) then return {'held', m[2]} end
local epoch = string.format('%.0f', tonumber(m[1]) + 1)
redis.call('XADD', KEYS[2], epoch .. '-0', 'f', '')
redis.call('HSET', KEYS[1], 'epoch', epoch, 's' .. epoch, m[4], 'until', ARGV[3], 'nonce', ARGV[1],
  'holder', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PUBLISH', string.sub(KEYS[1], 1, -6), 'T ' .. epoch .. ' ' .. m[4] .. '\n')
return {'ok', epoch, m[4]}
