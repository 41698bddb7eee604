import { Failure } from './command.ts';

export interface BusEntry {
  bus?: string;
  token?: string;
  secret?: string;
}

/**
 * Reads the file `.rtmrc`, which is YAML: names of buses, each with the indented keys `bus`, `token` and `secret`.
 * Other keys are ignored, and so is the byte order mark of editors on Windows. Throws Failure for a line that is
 * neither a name nor an indented key.
 */
export function readRtmrc(text: string): Map<string, BusEntry> {
  const entries = new Map<string, BusEntry>();
  let entry: BusEntry | undefined;
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  for (const [index, line] of lines.entries()) {
    if (/^\s*(#.*)?$|^(---|\.\.\.)/.test(line)) continue;
    const [, indent, key, value] = /^(\s*)("[^"]*"|'[^']*'|[^\s:'"][^:]*):(?:\s+(.*))?$/.exec(line) ?? [];
    const content = unquoted(value ?? '');
    if (key === undefined || (indent === '') !== (content === '') || (indent !== '' && !entry)) {
      throw new Failure('bad_rtmrc', `.rtmrc, line ${index + 1}: expected NAME:, or an indented key: value`);
    }
    const name = unquoted(key);
    if (indent === '') {
      entry = {};
      entries.set(name, entry);
    } else if (entry && (name === 'bus' || name === 'token' || name === 'secret')) {
      entry[name] = content;
    }
  }
  return entries;
}

function unquoted(text: string): string {
  const [, single, double] = /^(?:'((?:[^']|'')*)'|"([^"]*)")\s*(?:#.*)?$/.exec(text.trim()) ?? [];
  if (single !== undefined) return single.replaceAll("''", "'");
  return double ?? text.replace(/(^|\s)#.*$/, '').trim();
}
