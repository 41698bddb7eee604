import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify, stripVTControlCharacters } from 'node:util';
import { until } from '../../../harness/until.ts';
import { Terminal } from './terminal.ts';

const run = promisify(execFile);
const terminal = new Terminal();
const path = (shell: string) => join(terminal.folder, `rtm.${shell}`);
/** Returns the reason for skipping the tests of a shell that is not installed. */
const missing = (shell: string) => spawnSync(shell, ['--version']).error && `there is no ${shell}`;

/** Beginnings of commands, each with some of the words that complete it. */
const COMPLETED: [typed: string, words: string[]][] = [
  ['rtm sub p', ['pause']],
  ['rtm sub ', ['add', 'del', 'list', 'pause', 'resume', 'show']],
  ['rtm do', ['doctor']],
  ['rtm delivery ', ['bury', 'list', 'retry', 'show']],
  ['rtm trigger ', ['del', 'fire', 'list', 'put', 'show']],
  ['rtm --v', ['--version']],
  ['rtm pub --nd', ['--ndjson']],
  ['rtm sub add --lat', ['--latency']],
  ['rtm listen widgets --forw', ['--forward-to']],
];

before(async () => {
  for (const shell of ['bash', 'zsh', 'fish'])
    writeFileSync(path(shell), (await terminal.rtmAlone(`completion ${shell}`)).stdout);
});

test('another shell is refused, whatever its name', async () => {
  const { stderr, status } = await terminal.rtmAlone('completion constructor');
  assert.match(stderr, /There is completion for bash, zsh and fish, not for constructor/);
  assert.equal(status, 1);
});

describe('bash completes', { skip: missing('bash') ?? false }, () => {
  for (const [typed, words] of COMPLETED) {
    test(typed, async () => {
      const given = typed.split(' ').map((word) => `'${word}'`);
      const asked = `COMP_WORDS=(${given.join(' ')}); COMP_CWORD=${given.length - 1}; _rtm`;
      const { stdout } = await run('bash', [
        '-c',
        `. ${path('bash')}; ${asked}; printf '%s\n' "\${COMPREPLY[@]}"`,
      ]);
      assert.deepEqual(stdout.trimEnd().split('\n').sort(), words);
    });
  }
});

describe('fish completes', { skip: missing('fish') ?? false }, () => {
  for (const [typed, words] of COMPLETED) {
    test(typed, async () => {
      const env = { PATH: process.env.PATH, HOME: terminal.folder };
      const script = `source ${path('fish')}; complete -C '${typed}'`;
      const { stdout, stderr } = await run('fish', ['--no-config', '-c', script], { env });
      const found = stdout
        .trimEnd()
        .split('\n')
        .map((line) => line.split('\t')[0]);
      assert.deepEqual([found.sort(), stderr], [words, '']);
    });
  }
});

describe('zsh completes', { skip: missing('zsh') ?? false }, () => {
  for (const [typed, words] of COMPLETED.filter(([, { length }]) => length === 1)) {
    test(typed, async (t) => {
      const shell = terminal.onScreen('zsh -f -i');
      t.after(() => shell.kill('SIGKILL'));
      let text = '';
      shell.stdout.setEncoding('utf8').on('data', (piece) => (text += piece));
      shell.stdin.write(`PS1='' RPS1='' PROMPT_EOL_MARK=''; . ${path('zsh')}; echo rea""dy\n`);
      await until(() => text.includes('ready'));
      shell.stdin.write(`${typed}\t`);
      const whole = [...typed.split(' ').slice(0, -1), words[0]].join(' ');
      await until(() => stripVTControlCharacters(text).includes(whole), { what: whole });
    });
  }
});
