import { runCommand } from '../harness/measuring/command_line.ts';
import { describe, machine } from '../harness/measuring/machine.ts';
import { fuzz, type Verdict } from './fuzz.ts';
import { HELP, type Options, readOptions } from './options.ts';

async function run(options: Options): Promise<boolean> {
  process.stdout.write(`${describe(machine())}\n`);
  const beganMs = performance.now();
  const say = (text: string) => {
    const seconds = ((performance.now() - beganMs) / 1000).toFixed(0).padStart(5);
    process.stderr.write(`${seconds} s  ${text}\n`);
  };
  const verdict = await fuzz(options, say);
  process.stdout.write(`${forPeople(verdict, (performance.now() - beganMs) / 1000)}\n`);
  return verdict.ok;
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

await runCommand('fuzz', async () => {
  const options = readOptions(process.argv.slice(2));
  if (!options.help) return run(options);
  process.stdout.write(HELP);
  return true;
});
