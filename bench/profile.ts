import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const FUNCTIONS_SHOWN = 20;
/** Threads that worked for less than this are left out: the primary of a worker process, say. */
const MIN_WORK_MS = 200;

interface Profile {
  nodes: { id: number; callFrame: CallFrame; children?: number[] }[];
  samples: number[];
  timeDeltas: number[];
}

interface CallFrame {
  functionName: string;
  url: string;
  lineNumber: number;
}

interface Thread {
  /** The entry that the thread runs. */
  name: string;
  ms: number;
  places: [name: string, share: number][];
  functions: [name: string, share: number][];
}

/** Removes the profiles of an earlier part. */
export function emptyProfiles(dir: string): void {
  mkdirSync(dir, { recursive: true });
  for (const file of profilesIn(dir)) rmSync(file);
}

/** Formats the CPU time of each thread by package or folder and by function, without idling and start-up. */
export function profilesForPeople(dir: string): string {
  return threadsIn(dir)
    .map(({ name, ms, places, functions }) =>
      [
        `\n${name}, ${Math.round(ms)} ms`,
        ...places.map(([place, share]) => `${percent(share)}  ${place}`),
        '',
        ...functions.map(([its, share]) => `${percent(share)}  ${its}`),
      ].join('\n'),
    )
    .join('\n');
}

function profilesIn(dir: string): string[] {
  return readdirSync(dir)
    .filter((file) => file.endsWith('.cpuprofile'))
    .map((file) => join(dir, file));
}

function threadsIn(dir: string): Thread[] {
  return profilesIn(dir)
    .map((file) => summarize(JSON.parse(readFileSync(file, 'utf8')) as Profile))
    .filter(({ ms }) => ms >= MIN_WORK_MS)
    .sort((a, b) => b.ms - a.ms);
}

function summarize({ nodes, samples, timeDeltas }: Profile): Thread {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  for (const id of startingUp(nodes)) frames.delete(id);
  const [places, functions] = [new Map<string, number>(), new Map<string, number>()];
  let all = 0;
  samples.forEach((id, index) => {
    const frame = frames.get(id);
    const micros = timeDeltas[index] ?? 0;
    // `(program)` is time outside JavaScript: system calls, and the parsers of Node in C.
    if (!frame || frame.functionName === '(idle)') return;
    all += micros;
    add(places, placeOf(frame), micros);
    add(functions, nameOf(frame), micros);
  });
  const entry = nodes
    .map(({ callFrame }) => callFrame.url)
    .find((url) => /\/src\/(web|worker|delivery_thread)\.ts$/.test(url));
  return {
    name: entry ? fileOf(entry) : 'a thread',
    ms: all / 1000,
    places: shares(places, all),
    functions: shares(functions, all).slice(0, FUNCTIONS_SHOWN),
  };
}

/** Returns the ids of nodes that load modules, which a process does once. Parents come before their children. */
function startingUp(nodes: Profile['nodes']): ReadonlySet<number> {
  const all = new Set<number>();
  for (const { id, callFrame, children = [] } of nodes) {
    if (callFrame.url.startsWith('node:internal/modules/')) all.add(id);
    if (all.has(id)) for (const child of children) all.add(child);
  }
  return all;
}

function add(sums: Map<string, number>, name: string, value: number): void {
  sums.set(name, (sums.get(name) ?? 0) + value);
}

/** Returns each sum as a fraction of `all`, the largest first; fractions below 1 % are left out. */
function shares(sums: ReadonlyMap<string, number>, all: number): [string, number][] {
  return [...sums]
    .map(([name, value]): [string, number] => [name, value / all])
    .filter(([, share]) => share >= 0.01)
    .sort(([, a], [, b]) => b - a);
}

/** Returns the package, the folder of src/, or the module of Node that a function belongs to. */
function placeOf({ functionName, url }: CallFrame): string {
  const file = fileOf(url);
  if (file === '')
    return functionName.startsWith('(') ? functionName : 'functions of Node in C++, and regular expressions';
  if (file.startsWith('node_modules/')) return /node_modules\/((@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? file;
  if (file.startsWith('src/')) return file.split('/').slice(0, -1).join('/');
  return file.startsWith('node:internal/') ? file.split('/').slice(0, 2).join('/') : file;
}

function nameOf(frame: CallFrame): string {
  const name = frame.functionName || '(anonymous)';
  const file = fileOf(frame.url);
  return file === '' ? name : `${name} ${file}:${frame.lineNumber + 1}`;
}

function fileOf(url: string): string {
  return url.replace(/^.*\/(?=(node_modules|src)\/)/, '');
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1).padStart(6)} %`;
}
