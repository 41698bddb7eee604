#!lua flags=allow-oom
--[[
try_commands: try the commands that scripts need and that some servers do not let scripts use. Returns the first
command that the server refuses, and its error; nothing if it refuses none.
]]
return function(call)
  local key = call.keys.schema()
  for _, command in ipairs({ { 'OBJECT', 'ENCODING', key }, { 'MEMORY', 'USAGE', key }, { 'INFO', 'server' } }) do
    local reply = redis.pcall(unpack(command))
    if type(reply) == 'table' and reply.err then
      return { command = command[1] .. ' ' .. command[2], error = reply.err }
    end
  end
  return {}
end
