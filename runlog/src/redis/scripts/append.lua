-- Appends events, all or none, and tells watchers. KEYS: meta, events.
-- ARGV: epoch, number of the first event, time of closing or '', weight, most events, most bytes, expiry, events…
-- What is there already (an answer that was lost on the way) is not added twice.
local m = redis.call('HMGET', KEYS[1], 'epoch', 'head', 'closed', 'bytes')
if not m[1] then return {'missing'} end
if m[1] ~= ARGV[1] then return {'fenced'} end
local head, first, count = tonumber(m[2]), tonumber(ARGV[2]), #ARGV - 7
local last = first + count - 1
if m[3] then
  if count > 0 and head == last and ARGV[3] == m[3] then return {'ok', m[2]} end
  return {'closed'}
end
if head < first - 1 then return {'behind', m[2]} end
if ARGV[3] == '' and count > 0 then
  if last > tonumber(ARGV[5]) then return {'events'} end
  if head < last and tonumber(m[4]) + tonumber(ARGV[4]) > tonumber(ARGV[6]) then return {'bytes'} end
end
if count == 0 or head >= last then return {'ok', m[2]} end
-- The channel is no key: a slot on the move is one that lacks keys.
local channel = string.sub(KEYS[1], 1, -6)
local number = function(n) return string.format('%.0f', n) end
local lengths, payload, size = {}, {}, 0
for n = head + 1, last do
  local event = ARGV[7 + n - first + 1]
  redis.call('XADD', KEYS[2], ARGV[1] .. '-' .. number(n), 'd', event)
  lengths[#lengths + 1] = #event
  payload[#payload + 1] = event
  size = size + #event
end
redis.call('HSET', KEYS[1], 'head', number(last), 'bytes', number(tonumber(m[4]) + tonumber(ARGV[4])))
-- The stream begins here, or nothing renews it from now on.
if head == 0 or ARGV[3] ~= '' then
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
end
local closed = '0'
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'closed', ARGV[3])
  closed = '1'
end
-- Large batches are only announced: a watcher's buffer on the server is limited.
local line = number(last) .. ' ' .. closed .. ' '
if size > 65536 then
  redis.call('PUBLISH', channel, 'H ' .. line .. '\n')
else
  redis.call('PUBLISH', channel, 'E ' .. line .. table.concat(lengths, ',') .. '\n' .. table.concat(payload))
end
return {'ok', number(last)}
