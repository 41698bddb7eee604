import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { until } from '../../../harness/until.ts';
import { asRoot, bus } from './shared_bus.ts';
import { Terminal } from './terminal.ts';

const terminal = new Terminal();

test('doctor names an empty uuid beside a 401 of the callback, to the subscriber itself', async (t) => {
  bus.announceError(/it is a dead letter now/);
  const { receiver, publisher, topic, subscriber } = await bus.scene(t);
  receiver.usual = answer.text(401, 'who are you?');
  const { callback } = receiver;
  const { token, secret } = subscriber;
  const own = `-b ${bus.url} -t ${token}:${secret}`;
  const hint = 'The uuid of the subscription is empty, as after a call of POST /subscription without it.';
  const examined = async (options: string, reason: RegExp) => {
    let stdout = '';
    await until(async () => {
      ({ stdout } = await terminal.rtm(`doctor ${options}`));
      return reason.test(stdout);
    });
    return stdout;
  };
  const failed = /The last attempt failed: HTTP 401, "who are you\?"/;
  await publisher.publish(topic, { url: 'https://shop.example.com/1' });
  assert.doesNotMatch(await examined(own, failed), /The uuid/);

  await subscriber.call('POST', '/subscription', { topics: [topic], callback, timeout: 0 });
  const found = await examined(own, failed);
  assert.ok(found.includes(`HTTP 401, "who are you?". ${hint} If the receiver checks it, `), found);
  assert.match(found, /rtm sub add URL TOPIC\.\.\. --uuid TEXT sets it\./);
  assert.doesNotMatch(await examined(asRoot(), failed), /The uuid/);

  await subscriber.call('DELETE', '/subscriber');
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, timeout: 0, max_attempts: 1 });
  await publisher.publish(topic, { url: 'https://shop.example.com/2' });
  const dead = await examined(own, /became dead letters, the newest by max_attempts/);
  assert.ok(dead.includes(hint), dead);

  await subscriber.call('DELETE', '/dead_letters');
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, max_attempts: 100 });
  receiver.usual = answer.text(500, 'out of paper');
  await publisher.publish(topic, { url: 'https://shop.example.com/3' });
  assert.doesNotMatch(await examined(own, /HTTP 500/), /The uuid/);
  await subscriber.call('DELETE', '/subscriber');
});
