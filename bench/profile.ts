import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const MOST_FUNCTIONS = 30;

interface Profile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
  }[];
  samples: number[];
  timeDeltas: number[];
}

/** For each CPU profile of a directory, where the time went: the share of each function by itself, without idling. */
export function summarizeProfiles(dir: string): string {
  return readdirSync(dir)
    .filter((file) => file.endsWith('.cpuprofile'))
    .map((file) => `\n${file}\n${summarize(JSON.parse(readFileSync(join(dir, file), 'utf8')))}\n`)
    .join('');
}

function summarize({ nodes, samples, timeDeltas }: Profile): string {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const micros = new Map<string, number>();
  samples.forEach((id, index) => {
    const name = names.get(id) ?? '?';
    // `(program)` is time outside JavaScript: system calls, and the parsers of Node in C.
    if (name !== '(idle)') micros.set(name, (micros.get(name) ?? 0) + (timeDeltas[index] ?? 0));
  });
  const all = [...micros.values()].reduce((sum, value) => sum + value, 0);
  return [...micros]
    .sort(([, a], [, b]) => b - a)
    .slice(0, MOST_FUNCTIONS)
    .map(([name, value]) => `${((value / all) * 100).toFixed(1).padStart(6)} %  ${name}`)
    .join('\n');
}

function nameOf({ functionName, url, lineNumber }: Profile['nodes'][number]['callFrame']): string {
  const name = functionName || '(anonymous)';
  const file = url.replace(/^.*\/(?=(node_modules|src)\/)/, '');
  return file === '' ? name : `${name} ${file}:${lineNumber + 1}`;
}
