import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { silent, terminal, write } from './shared_terminal.ts';

test('verify says whether a delivery is genuine, and what is wrong', async () => {
  const [key, body] = [Buffer.from('a key of the tests of rtm'), '[]'];
  const headersAt = (seconds: number) => {
    const signature = createHmac('sha256', key).update(`1.${seconds}.${body}`).digest('base64');
    return `webhook-id: 1\nwebhook-timestamp: ${seconds}\nwebhook-signature: v1,${signature}\n`;
  };
  const now = Math.floor(Date.now() / 1000);
  write('body', body);
  write('new', headersAt(now));
  write('old', headersAt(now - 1000));
  const verify = (secret: Buffer, headers: string) =>
    terminal.rtm(`verify --secret whsec_${secret.toString('base64')} --headers ${headers} --body body`);
  assert.deepEqual(await verify(key, 'new'), { ...silent, stdout: 'the delivery is genuine\n' });
  assert.match(
    (await verify(key, 'old')).stderr,
    /^not_genuine: the signature fits, but webhook-timestamp is/,
  );
  const line = `verify --secret whsec_${key.toString('base64')} --headers new --body -`;
  assert.equal((await terminal.rtm(line, { stdin: body })).stdout, 'the delivery is genuine\n');
  const other = await verify(Buffer.from('another key of these tests'), 'new');
  assert.match(other.stderr, /^not_genuine: no signature of the delivery fits/);
  assert.equal(other.status, 2);
  const prefixless = await terminal.rtm(`verify --secret ${'Zm9v'.repeat(8)} --headers new --body body`);
  assert.match(
    prefixless.stderr,
    /fits the signing secret; a signing secret begins with whsec_ or whpk_, and this one does not\n$/,
  );
  const malformed = await terminal.rtm('verify --secret foo --headers new --body body');
  const why = '--secret: a signing secret is whsec_ and the Base64 of 24 bytes or more';
  assert.deepEqual(malformed, {
    ...silent,
    stderr: `bad_usage: ${why}\nrtm verify --help says more.\n`,
    status: 1,
  });
  const missing = await terminal.rtm(`verify --secret ${'Zm9v'.repeat(8)} --headers missing --body body`);
  assert.match(missing.stderr, /^ENOENT: no such file or directory, stat .*missing'\n$/);
  const folder = await terminal.rtm(`verify --secret ${'Zm9v'.repeat(8)} --headers / --body body`);
  assert.equal(folder.stderr, 'EISDIR: / is a directory; give a file\n');
});
