import { start } from './processes/lifecycle.ts';
import { checkTakeover } from './processes/takeover_check.ts';
import { endWithUsage } from './processes/usage.ts';

await start(async () => {
  const [mode, ...rest] = process.argv.slice(2);
  if (process.argv.some((argument) => /^(-h|--help)$/.test(argument))) endWithUsage('takeover');
  if (mode === undefined) endWithUsage('takeover', 'what to do is missing');
  const unknown = mode === '--check' ? rest[1] : mode;
  if (unknown !== undefined) endWithUsage('takeover', `unknown argument ${unknown}`);
  const tell = (progress: string) => void process.stderr.write(`${progress}\n`);
  const { text, ready } = await checkTakeover(rest[0], tell);
  process.stdout.write(`${text}\n`);
  process.exitCode = ready ? 0 : 1;
});
