import { describe, machine } from '../harness/machine.ts';
import { UsageError } from '../harness/options.ts';
import { fuzz, type Verdict } from './fuzz.ts';
import { HELP, type Options, readOptions } from './options.ts';

async function run(options: Options): Promise<void> {
  process.stdout.write(`${describe(machine())}\n`);
  const beganMs = performance.now();
  const say = (text: string) => {
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(0).padStart(5);
    process.stderr.write(`${seconds} s  ${text}\n`);
  };
  const verdict = await fuzz(options, say);
  process.stdout.write(`${forPeople(verdict, (performance.now() - beganMs) / 1000)}\n`);
  if (!verdict.ok) process.exitCode = 1;
}

function forPeople({ seed, sent, slowClosed, statuses, bars, ok }: Verdict, seconds: number): string {
  const counts = [...statuses]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${status || 'closed'} ${count}`);
  const lines = bars.map(
    (bar) => `${bar.ok ? 'ok    ' : 'NOT ok'} ${bar.text}${bar.found ? `: ${bar.found}` : ''}`,
  );
  const what = `${sent} malformed requests (seed ${seed}) in ${seconds.toFixed(0)} s, ${slowClosed} slow connections closed`;
  return [what, `answers: ${counts.join(', ')}`, ...lines, ok ? 'ok' : 'NOT ok'].join('\n');
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options.help) process.stdout.write(HELP);
  else await run(options);
} catch (error) {
  process.stderr.write(`fuzz: ${error instanceof Error ? error.message : error}\n`);
  if (error instanceof UsageError) process.stderr.write('See npm run fuzz -- --help\n');
  process.exitCode = 1;
}
