const levels: Record<number, string> = {
  10: 'trace',
  20: 'debug',
  30: 'info',
  40: 'warn',
  50: 'error',
  60: 'fatal',
};
const dropped = new Set(['level', 'time', 'msg', 'pid', 'hostname', 'name', 'v', 'process']);
const longestValue = 160;

/** A line of our JSON log as a person reads it: time, level, message, fields. Any other line as it is. */
export function renderLogLine(line: string): string {
  const entry = parseEntry(line);
  if (!entry) return line;
  const fields = Object.entries(entry)
    .filter(([name]) => !dropped.has(name))
    .map(([name, value]) => `${name}=${renderValue(value)}`);
  const at = new Date(entry.time as string | number);
  const time = Number.isNaN(at.getTime()) ? '' : at.toTimeString().slice(0, 8);
  const level = (levels[entry.level as number] ?? String(entry.level)).padEnd(5);
  return [time, level, entry.msg, ...fields].filter((part) => part !== undefined && part !== '').join(' ');
}

function parseEntry(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const entry = JSON.parse(line);
    return 'level' in entry && 'time' in entry ? entry : undefined;
  } catch {
    return undefined;
  }
}

function renderValue(value: unknown): string {
  const message = typeof value === 'object' && value !== null && 'message' in value ? value.message : value;
  const text = typeof message === 'string' && !/\s/.test(message) ? message : JSON.stringify(message);
  return text.length > longestValue ? `${text.slice(0, longestValue)}…` : text;
}
