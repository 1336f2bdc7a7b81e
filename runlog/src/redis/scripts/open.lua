-- Creates a run. KEYS: meta. ARGV: nonce, until, expiry, then pairs of fields.
-- A repetition by the same caller (an answer that was lost on the way) succeeds again.
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('HGET', KEYS[1], 'nonce') == ARGV[1] then return {'ok'} end
  return {'exists'}
end
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'until', ARGV[2],
  'epoch', '1', 's1', '0', 'head', '0', 'earliest', '1', 'bytes', '0', unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'ok'}
