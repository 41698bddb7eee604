#!lua flags=allow-oom
--[[
try_commands: try the commands that scripts need. Fails if the ACL of the user forbids one of them. Returns the first
command that the server does not let scripts use, and its error. Returns neither if scripts may use all commands.
]]
-- Returns true if the Redis user may run a command on a key of the bus, or may PUBLISH on a channel of the bus. A
-- server that resembles Redis may lack `acl_check_cmd`; each command then counts as allowed.
local function may_run(keys, command)
  if not redis.acl_check_cmd then return true end
  local name = command == 'PUBLISH' and keys.wake('main') or keys.schema()
  -- Redis 8.8 throws an error if the command cannot have `count` arguments, so several counts are tried. 0 is not
  -- tried, because it can make Redis 7.0.15 crash (with the command SET, for example).
  for count = 3, 1, -1 do
    local ok, may = pcall(redis.acl_check_cmd, command, unpack({ name, name, name }, 1, count))
    if ok and may then return true end
  end
  return false
end

-- Must be called only if the Redis user may not PUBLISH on the channel. Returns true if the ACL denies the user the
-- channel, and false if it denies the command. The text of Redis's error tells which.
local function lacks_channel(channel)
  local reply = redis.pcall('PUBLISH', channel, '')
  return type(reply) == 'table' and reply.err ~= nil and reply.err:find('channel', 1, true) ~= nil
end

return function(call)
  for _, command in ipairs(include('store/commands')) do
    if not may_run(call.keys, command) then
      local channel = call.keys.wake('main')
      local what = 'run ' .. command
      if command == 'PUBLISH' and lacks_channel(channel) then what = 'access the channel ' .. channel end
      error({ err = "NOPERM The user executing the script can't " .. what })
    end
  end
  local key = call.keys.schema()
  for _, command in ipairs({ { 'OBJECT', 'ENCODING', key }, { 'MEMORY', 'USAGE', key }, { 'INFO', 'server' } }) do
    local reply = redis.pcall(unpack(command))
    if type(reply) == 'table' and reply.err then
      return { command = command[1] .. ' ' .. command[2], error = reply.err }
    end
  end
  return {}
end
