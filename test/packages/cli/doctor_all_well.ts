import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../harness/until.ts';
import { asRoot, bus } from './shared_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();

test('doctor ends with 0 if all is well', async (t) => {
  const { subscriber, publisher, topic, receiver } = await bus.scene(t);
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  await until(() => receiver.events.length === 1);
  const { token, secret } = subscriber;
  const { stdout, stderr, status } = await terminal.rtmAlone(`doctor -b ${bus.url} -t ${token}:${secret}`);
  assert.deepEqual([stderr, status], ['', 0], stdout);
  const checks = stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ +/).slice(0, 2).join(' '));
  assert.deepEqual(checks, ['ok connection', 'ok clock', 'ok credentials', 'ok workers', 'ok callback']);
  assert.match(stdout, /ok +workers +32 \(\+11 spare\), \d+ deliveries due/);
  assert.match(stdout, /this machine reaches it; no delivery failed lately/);

  const found = await terminal.rtm(`doctor --json ${asRoot()}`);
  assert.equal(found.status, 0, found.stdout);
  const findings: { check: string; isWell: boolean }[] = JSON.parse(found.stdout);
  assert.ok(findings.every(({ isWell }) => isWell));
});
