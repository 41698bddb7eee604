import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Terminal } from './terminal.ts';

/** The terminal of the tests of most commands. They share it because each terminal starts a process that stays. */
export const terminal = new Terminal();

/** What is seen of a command that succeeds and prints nothing. */
export const silent = { stdout: '', stderr: '', status: 0 };

/** Writes a file into the folder of the terminal. */
export function write(name: string, text: string): void {
  writeFileSync(join(terminal.folder, name), text);
}
