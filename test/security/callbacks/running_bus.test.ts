import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { noOpenssl, selfSigned } from '../../../harness/http/certificates.ts';
import { answer, type Delivery } from '../../../harness/http/receiver.ts';
import { RunningBus } from '../../../harness/processes/running_bus.ts';
import { newSecret } from '../../../src/subscribing/signing_keys.ts';
import { Canary } from './canary.ts';
import { ConnectProxy } from './connect_proxy.ts';

const bus = RunningBus.forTests();
const url = 'https://shop.example.com/1';

const verified = (secret: string, { body, headers }: Delivery) =>
  new Webhook(secret).verify(body, headers as Record<string, string>) as { url: string }[];

test('a subscriber gets every attempt signed, and changes its secret without an unsigned delivery', async (t) => {
  const { publisher, topic, subscriber, receiver } = await bus.scene(t);
  const settings = { topics: [topic], callback: receiver.callback, uuid: 'me' };
  const own = newSecret();
  await subscriber.call('POST', '/subscription', { ...settings, signing_secret: own });
  receiver.answers(answer.status(500));
  await publisher.publish(topic, { url });
  const [failed, taken] = [await receiver.delivery(1), await receiver.delivery(2)];
  for (const each of [failed, taken]) assert.deepEqual(verified(own, each)[0]?.url, url);
  assert.equal(failed.id, taken.id);
  const signedAt = ({ headers }: Delivery) => Number(headers['webhook-timestamp']);
  assert.ok(Math.abs(signedAt(taken) - Date.now() / 1000) < 60);
  assert.ok(signedAt(taken) >= signedAt(failed));

  const made = await subscriber.call('POST', '/subscription', { ...settings, signing_secret: true });
  const { signing_secret } = made as { signing_secret: string };
  await publisher.publish(topic, { url });
  const both = await receiver.delivery(3);
  for (const secret of [own, signing_secret]) assert.deepEqual(verified(secret, both)[0]?.url, url);

  await subscriber.call('POST', '/subscription', { ...settings, signing_secret: false });
  await publisher.publish(topic, { url });
  assert.equal((await receiver.delivery(4)).headers['webhook-signature'], undefined);
});

test('a callback that is not allowed any more fails and is retried like any other, without a connection', async (t) => {
  bus.announceError(/^gave up on a batch/);
  const canary = await Canary.start();
  t.after(() => canary.stop());
  const { publisher, topic, subscriber } = await bus.scene(t);
  const settings = { topics: [topic], uuid: 'me', max_attempts: 2 };
  await subscriber.call('POST', '/subscription', { ...settings, callback: 'https://hooks.invalid/' });
  // Stores a callback that the bus would refuse today. ROUTEMASTER_CALLBACK_ALLOW may have been wider when the client
  // subscribed, and the Ruby Routemaster took credentials too.
  const callback = `https://user:hunter2@[::ffff:7f00:2]:${canary.port}/`;
  await bus.store.redis.hset(bus.store.keys.subscriber(subscriber.token), { callback });
  await publisher.publish(topic, { url });

  const worker = bus.process('worker');
  const { reason, death } = await worker.logs('gave up on a batch: it is a dead letter now');
  assert.match(
    String(reason),
    /^refused to connect: its host is at an address that is not public \(loopback\)/,
  );
  assert.equal(death, 'max_attempts');
  const [{ id } = assert.fail()] = (await subscriber.call('GET', '/dead_letters')) as { id: string }[];
  const letter = await subscriber.call('GET', `/dead_letters/${id}`);
  const { history } = letter as { history: { reason: string }[] };
  assert.deepEqual(
    history.map((attempt) => attempt.reason),
    [reason, reason],
  );
  assert.equal(canary.connections, 0);
  const told = JSON.stringify([worker.log, letter, await subscriber.report()]);
  assert.doesNotMatch(told, /hunter2/);
});

test('the processes use the configured authority, proxy and ports for callbacks', {
  skip: noOpenssl,
}, async (t) => {
  const identity = selfSigned();
  const dir = mkdtempSync(join(tmpdir(), 'routemaster-ca-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const ca = join(dir, 'ca.pem');
  writeFileSync(ca, identity.cert);
  const proxy = new ConnectProxy();
  await proxy.start();
  t.after(() => proxy.stop());

  await bus.process('worker').stop();
  await bus.start('worker', { ROUTEMASTER_CALLBACK_CA: ca, ROUTEMASTER_EGRESS_PROXY: proxy.url });
  const { publisher, topic, subscriber, receiver } = await bus.scene(t, { tls: identity });
  await publisher.publish(topic, { url });
  await receiver.delivery(1);
  assert.deepEqual(proxy.targets, [new URL(receiver.callback).host]);

  await bus.process('worker').stop();
  const listed = { ROUTEMASTER_CALLBACK_CA: ca, ROUTEMASTER_CALLBACK_PORTS: '443' };
  const refusing = await bus.start('worker', listed);
  await publisher.publish(topic, { url });
  assert.match(String((await refusing.logs('failed to deliver')).reason), /its port is \d+/);
  await bus.start('web', listed);
  const again = { topics: [topic], callback: receiver.callback, uuid: 'me' };
  const { token, secret } = subscriber;
  await assert.rejects(bus.clientOf(token, secret).call('POST', '/subscription', again), /its port is \d+/);
  await bus.process('web').stop();
});
