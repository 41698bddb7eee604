import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Api } from '../harness/http/api.ts';
import { root } from '../harness/processes/command.ts';

const run = promisify(execFile);
const skip = spawnSync('curl', ['--version']).error ? 'curl is not on PATH' : false;
const api = new Api({
  env: { ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.0/8', ROUTEMASTER_CALLBACK_PORTS: '9292' },
});

/** `curl` fails on a refusal; nothing waits, since no worker delivers here. */
const SHELL = `set -eo pipefail
curl() { command curl -sS --fail-with-body --noproxy '*' --max-time 20 "$@"; }
sleep() { :; }
`;

test('README: the bus accepts each command of the tour', { skip }, async () => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const blocks = [...readme.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block);
  const SHOP = atob((await api.authorization('shop')).slice('Basic '.length));
  const env = { ...process.env, BUS: `http://127.0.0.1:${api.port}`, SHOP };
  for (const block of blocks.filter((each) => each.includes('curl') && each.includes('"$SHOP"')))
    await run('bash', ['-c', SHELL + block], { env });
  for (const path of ['/subscriptions', '/topics/products/delayed', '/triggers', '/joins']) {
    const { text } = await api.call('GET', path, { as: 'shop' });
    assert.equal(JSON.parse(text).length, 1, path);
  }
});
