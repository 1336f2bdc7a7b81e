-- Reads events after a number. KEYS: meta, events. ARGV: after, most.
-- Field `s<epoch>` holds the head at which an epoch began: so the id of a number is known without looking for it.
local m = redis.call('HMGET', KEYS[1], 'head', 'closed', 'earliest', 'epoch')
if not m[1] then return {'missing'} end
local after = tonumber(ARGV[1])
if after < tonumber(m[3]) - 1 then return {'gone', m[3]} end
local closed = m[2] and '1' or '0'
if after >= tonumber(m[1]) then return {'ok', m[1], closed, {}} end
local newest = tonumber(m[4])
local epoch = newest
while epoch > 1 and tonumber(redis.call('HGET', KEYS[1], 's' .. string.format('%.0f', epoch))) > after do
  epoch = epoch - 1
end
local start = string.format('%.0f-%.0f', epoch, after + 1)
-- Fences lie between the events of two epochs.
local most = string.format('%.0f', tonumber(ARGV[2]) + newest - epoch)
return {'ok', m[1], closed, redis.call('XRANGE', KEYS[2], start, '+', 'COUNT', most)}
