import { join } from 'node:path';
import { Launcher } from './launcher.ts';
import { readSettings, SettingsError } from './settings.ts';

const root = join(import.meta.dirname, '..', '..');
try {
  const settings = await readSettings(root, process.argv.slice(2));
  process.exit(await new Launcher(root, settings).run());
} catch (error) {
  if (!(error instanceof SettingsError)) throw error;
  console.error(`start: ${error.message}`);
  process.exit(1);
}
