#!lua flags=allow-oom
--[[
record_call: append a call to the audit, which keeps the newest `max_entries` entries. Returns the id of the entry,
which begins with the time (ms).

The script runs even when memory is exhausted (`allow-oom`). Otherwise a client could hide its calls by filling
Redis; the audit itself is bounded.
]]
return function(call, args)
  -- Every entry has all fields, even empty ones. This saves memory, because a stream stores the names of the fields
  -- only once for entries with the same fields.
  return redis.call('XADD', call.keys.audit(), 'MAXLEN', args.max_entries, '*',
    'action', args.action, 'role', args.role, 'client', args.client or '', 'target', args.target or '',
    'address', args.address, 'status', args.status, 'code', args.code or '',
    'subscriptions', args.subscriptions or '')
end
