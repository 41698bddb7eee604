import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseEnv } from 'node:util';
import { strayLines } from '../../harness/local/env_file.ts';
import { root } from '../../harness/processes/command.ts';

test('a line of .env is stray if no setting can be read from it', () => {
  for (const [text, lines, settings] of [
    ['A=1\njust text\nB=2\n', [2], { A: '1', B: '2' }],
    ['\r\nA=1\r\nsecret\r\n', [3], { A: '1' }],
    ['# A comment\n\n  # another\nexport A = 1 # and one\n', [], { A: '1' }],
    ['A="1\nB=2\nthree"\nB=3\nfour', [5], { A: '1\nB=2\nthree', B: '3' }],
    ["A='1\ntwo' # and\n", [], { A: '1\ntwo' }],
    ['A="open\nB=2\n', [], { A: '"open', B: '2' }],
    ['A=\nB=2', [], { A: '', B: '2' }],
    ['PORT: 3000\n', [1], {}],
  ] as const) {
    assert.deepEqual(strayLines(text), lines, text);
    assert.deepEqual({ ...parseEnv(text) }, settings, text);
  }
});

test('.env.example has no stray line, also with its settings switched on', () => {
  const example = readFileSync(join(root, '.env.example'), 'utf8');
  assert.deepEqual(strayLines(example), []);
  assert.deepEqual(strayLines(example.replace(/^# (?=\w+=)/gm, '')), []);
});
