import { globSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe } from 'node:test';

/**
 * Runs all test files below a folder in this process, one after another, each in a suite with its path as the name. The
 * hooks of a file are those of its suite. All files are loaded before the first test runs. So a file must not change
 * anything global while it is loaded. It may do so in a hook, if another hook undoes the change. A module that several
 * files import must not call hooks when it is loaded: they would be those of the first file alone.
 */
export function together(folder: string): void {
  for (const name of globSync('**/*.test.ts', { cwd: folder }).sort()) {
    const path = join(folder, name);
    describe(relative('', path), async () => {
      await import(path);
    });
  }
}
