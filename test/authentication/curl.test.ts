import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { FIXED_TOKEN, GuardedServer, ROOT_KEY } from './guarded_server.ts';

const run = promisify(execFile);
const skip = spawnSync('curl', ['--version']).error ? 'curl is not on PATH' : false;

describe('curl', { skip }, () => {
  const server = new GuardedServer();
  let pair: string;
  before(async () => {
    const { token, secret } = await server.clients.create('billing');
    pair = `${token}:${secret}`;
  });

  /** The status of the last answer, and the request headers of all requests. */
  async function curl(...args: string[]): Promise<{ status: number; sent: string[] }> {
    const path = args.pop();
    const url = `http://127.0.0.1:${server.port}${path}`;
    const options = ['-sv', '-o', '/dev/null', '-w', '%{http_code}', '--max-time', '20', '--noproxy', '*'];
    const { stdout, stderr } = await run('curl', [...options, ...args, url]);
    return {
      status: Number(stdout),
      sent: stderr.split('\n').filter((line) => /^> Authorization/i.test(line)),
    };
  }

  test('--digest, with the best algorithm of curl', async () => {
    const { status, sent } = await curl('--digest', '-u', pair, '/client?a=1');
    assert.equal(status, 200);
    assert.match(sent.join('\n'), /^> Authorization: Digest .*algorithm=SHA-256/);
  });

  test('--digest, posting a body', async () => {
    assert.equal((await curl('--digest', '-u', pair, '-d', '{"type":"noop"}', '/client')).status, 200);
  });

  test('--anyauth', async () => {
    const { status, sent } = await curl('--anyauth', '-u', pair, '/client');
    assert.equal(status, 200);
    assert.match(sent.join('\n'), /^> Authorization: Digest /);
  });

  test('--anyauth, posting a body', async () => {
    assert.equal((await curl('--anyauth', '-u', pair, '-d', '{"type":"noop"}', '/client')).status, 200);
  });

  test('-u token:secret', async () => {
    assert.equal((await curl('-u', pair, '/client')).status, 200);
  });

  test('-u token: for a token-only client', async () => {
    assert.equal((await curl('-u', `${FIXED_TOKEN}:`, '/client')).status, 200);
  });

  test('--anyauth for a token-only client, by Basic after Digest was refused', async () => {
    const { status, sent } = await curl('--anyauth', '-u', `${FIXED_TOKEN}:x`, '-d', '{}', '/client');
    assert.equal(status, 200);
    assert.deepEqual(
      sent.map((line) => line.split(' ')[2]),
      ['Digest', 'Basic'],
    );
  });

  test('-u with the root key, and --digest as the user root', async () => {
    assert.equal((await curl('-u', `${ROOT_KEY}:`, '/root')).status, 200);
    assert.equal((await curl('--digest', '-u', `root:${ROOT_KEY}`, '/root')).status, 200);
  });

  test('with a wrong secret is refused once', async () => {
    for (const how of ['--digest', '--basic', '--anyauth']) {
      const { status, sent } = await curl(how, '-u', `${pair}x`, '/client');
      assert.equal(status, 401);
      assert.ok(sent.length <= 2, sent.join('\n'));
    }
  });
});
