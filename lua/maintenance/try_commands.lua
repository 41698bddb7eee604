#!lua flags=allow-oom
--[[
try_commands: try the commands that scripts need. Fails if the ACL of the user forbids one of them. Returns the first
command that the server lets no script use, and its error; nothing if scripts may use all.
]]
return function(call)
  for _, command in ipairs(include('store/commands')) do
    if not redis.acl_check_cmd(command) then
      error({ err = "NOPERM The user executing the script can't run " .. command })
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
