-- now: milliseconds since the Unix epoch by Redis's own clock, the one clock that all processes share.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
