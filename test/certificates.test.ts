import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { noOpenssl, selfSigned } from '../harness/http/certificates.ts';
import { compileCache, root } from '../harness/processes/command.ts';
import { type Config, readConfig } from '../src/config.ts';

const dir = mkdtempSync(join(tmpdir(), 'routemaster-ca-'));
after(() => rmSync(dir, { recursive: true }));

function fileWith(name: string, text: string): string {
  const file = join(dir, name);
  writeFileSync(file, text);
  return file;
}

const SETTINGS: Record<string, (config: Config) => string | undefined> = {
  ROUTEMASTER_CALLBACK_CA: ({ callbackCa }) => callbackCa,
  ROUTEMASTER_REDIS_CA: ({ redisTls }) => redisTls.ca,
};

for (const [name, shown] of Object.entries(SETTINGS)) {
  const read = (value: string) => shown(readConfig({ ROUTEMASTER_ROOT_KEY: 'root', [name]: value }));
  const refusal = new RegExp(`${name} must be a readable file of certificates in PEM, or these themselves`);

  describe(`${name} is refused`, () => {
    const wrong: [title: string, value: () => string][] = [
      ['if there is no such file', () => join(dir, 'none.pem')],
      ['if it is a directory', () => dir],
      ['if there is no certificate in it', () => fileWith('other.pem', 'no certificate')],
      ['if it is empty', () => fileWith('empty.pem', '')],
      ['if it is text that is no certificate', () => '-----BEGIN CERTIFICATE-----\nnonsense'],
    ];
    for (const [title, value] of wrong) test(title, () => assert.throws(() => read(value()), refusal));
  });

  describe(`${name} is taken`, { skip: noOpenssl }, () => {
    let first: string;
    let second: string;
    before(() => {
      [first, second] = [selfSigned().cert, selfSigned().cert];
    });

    test('as a file or as it is, with any number of certificates', () => {
      const both = `ours\n${first}\n${second}`;
      assert.equal(read(fileWith('both.pem', both)), both);
      assert.equal(read(both), both);
    });

    test('only if each can be read: TLS would stop at the one that cannot', () => {
      assert.throws(() => read(first + second.slice(0, 200)), refusal);
    });
  });
}

for (const [entry, env] of [
  ['web', {}],
  ['web', { WEB_CONCURRENCY: '2' }],
  ['worker', {}],
] as const) {
  test(`${entry} refuses files that are not there at its start (${JSON.stringify(env)})`, () => {
    const missing = Object.fromEntries(Object.keys(SETTINGS).map((name) => [name, '/no/such/file']));
    const ended = spawnSync(process.execPath, [`src/${entry}.ts`], {
      cwd: root,
      env: { PATH: process.env.PATH, ...compileCache, ROUTEMASTER_ROOT_KEY: 'x', ...env, ...missing },
      encoding: 'utf8',
    });
    assert.equal(ended.status, 78, ended.stdout + ended.stderr);
    assert.equal(ended.stdout, '', 'it did nothing before');
    for (const name of Object.keys(SETTINGS))
      assert.match(
        ended.stderr,
        new RegExp(`${name} must be a readable file of certificates in PEM.*\\(ENOENT\\)`),
      );
  });
}
