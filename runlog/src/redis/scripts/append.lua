-- Appends events to runs, to each all or none, and tells watchers. KEYS: per run its meta and its events.
-- ARGV: most events, most bytes, expiry; per run: epoch, number of the first event, time of closing or '', weight, count, events…
-- What is there already (an answer that was lost on the way) is not added twice. Gives a line per run.
local call, format, concat = redis.call, string.format, table.concat
local most_events, most_bytes, expiry = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

local function append(meta, events, at, count)
  local epoch, first, closing = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local m = call('HMGET', meta, 'epoch', 'head', 'closed', 'bytes')
  if not m[1] then return 'missing' end
  if m[1] ~= epoch then return 'fenced' end
  local head, last = tonumber(m[2]), first + count - 1
  if m[3] then
    if count > 0 and head == last and closing == m[3] then return 'ok ' .. m[2] end
    return 'closed'
  end
  if head < first - 1 then return 'behind ' .. m[2] end
  local bytes = tonumber(m[4]) + tonumber(ARGV[at + 3])
  if closing == '' and count > 0 then
    if last > most_events then return 'events' end
    if head < last and bytes > most_bytes then return 'bytes' end
  end
  if count == 0 or head >= last then return 'ok ' .. m[2] end
  local lengths, payload, size = {}, {}, 0
  for n = head + 1, last do
    local event = ARGV[at + 5 + n - first]
    call('XADD', events, format('%s-%d', epoch, n), 'd', event)
    lengths[#lengths + 1] = #event
    payload[#payload + 1] = event
    size = size + #event
  end
  local number, closed = format('%d', last), '0'
  if closing == '' then
    call('HSET', meta, 'head', number, 'bytes', format('%d', bytes))
  else
    call('HSET', meta, 'head', number, 'bytes', format('%d', bytes), 'closed', closing)
    closed = '1'
  end
  -- The stream begins here, or nothing renews it from now on.
  if head == 0 or closing ~= '' then
    call('PEXPIRE', meta, expiry)
    call('PEXPIRE', events, expiry)
  end
  -- The channel is no key: a slot on the move is one that lacks keys.
  local channel = string.sub(meta, 1, -6)
  local line = number .. ' ' .. closed .. ' '
  -- Large batches are only announced: a watcher's buffer on the server is limited.
  if size > 65536 then
    call('PUBLISH', channel, 'H ' .. line .. '\n')
  else
    call('PUBLISH', channel, 'E ' .. line .. concat(lengths, ',') .. '\n' .. concat(payload))
  end
  return 'ok ' .. number
end

local lines, at = {}, 4
for run = 1, #KEYS / 2 do
  local count = tonumber(ARGV[at + 4])
  lines[run] = append(KEYS[2 * run - 1], KEYS[2 * run], at, count)
  at = at + 5 + count
end
return concat(lines, '\n')
