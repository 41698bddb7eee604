import { join } from 'node:path';
import { BootError } from '../../src/errors.ts';
import { prepareDataDirectory } from './data_directory.ts';
import { readEnvFile } from './env_file.ts';
import { Launcher } from './launcher.ts';
import { dataDirectory, readSettings } from './settings.ts';

const root = join(import.meta.dirname, '..', '..');
try {
  readEnvFile(root);
  const directory = dataDirectory(root);
  prepareDataDirectory(directory);
  process.exit(await new Launcher(root, readSettings(directory, process.argv.slice(2))).run());
} catch (error) {
  if (!(error instanceof BootError)) throw error;
  console.error(`start: ${error.message}`);
  process.exit(error.exitCode);
}
