import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { answer } from '../../../harness/http/receiver.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { until } from '../../../harness/until.ts';
import { inTrouble } from './doctor_servers.ts';
import { asRoot, bus } from './shared_bus.ts';
import { silent, terminal } from './shared_terminal.ts';

/** Puts the next attempt of a subscriber's oldest batch, which has failed, off until the end of the test. */
async function putOff(token: string): Promise<void> {
  const { keys, redis } = bus.store;
  const [bid = ''] = await redis.zrange(keys.batches_queued(token), '0', '-1');
  const scheduled = keys.jobs_scheduled('main');
  await until(async () => {
    const job = (await redis.zrangeBuffer(scheduled, '0', '-1')).find((each) => each.includes(bid));
    return job !== undefined && (await redis.zadd(scheduled, 'XX', 'CH', Date.now() + 60_000, job)) === 1;
  });
}

test('doctor finds a callback that fails, that nobody serves, or that is paused', async (t) => {
  const failing = await bus.scene(t);
  await bus.scene(t);
  failing.receiver.usual = answer.text(500, 'out of paper');
  const event = { type: 'noop', url: 'https://shop.example.com/1' };
  await failing.publisher.call('POST', `/topics/${failing.topic}`, event);
  await until(() => failing.receiver.deliveries.length > 0);
  const examined = () =>
    terminal.rtm(`doctor -b ${bus.url} -t ${failing.subscriber.token}:${failing.subscriber.secret}`);
  const bad = (stdout: string) => /^BAD {2}callback .*\n +(.*)$/m.exec(stdout)?.[1];
  await until(async () => bad((await examined()).stdout));
  const first = await examined();
  const why =
    /^Deliveries fail, though something listens: .*\. The last attempt failed: HTTP 500, "out of paper"\. Its log/;
  assert.match(bad(first.stdout) ?? '', why);
  const toRoot = (await terminal.rtm(`doctor ${asRoot()}`)).stdout;
  assert.match(bad(toRoot) ?? '', why);
  assert.match(toRoot, /^ok +callbacks +no delivery to (1 other|\d+ others) fails$/m);
  assert.deepEqual([first.stderr, first.status], ['not_well: 1 of 5 checks found something\n', 2]);

  const gone = await bus.receiver(t);
  const { callback } = gone;
  await gone.stop();
  await failing.subscriber.call('POST', '/subscription', { topics: [], callback });
  assert.match(
    (await examined()).stdout,
    /ECONNREFUSED.*health \d+ of 100\n +Deliveries fail: start the rec/,
  );
  await failing.subscriber.call('POST', '/subscriber/pause');
  assert.match((await examined()).stdout, /paused by subscriber\n +Go on with rtm sub resume\./);
  const { stdout } = await terminal.rtm(`doctor ${asRoot()}`);
  const [, command = ''] = /paused by subscriber\n +Go on with rtm (.*)\./.exec(stdout) ?? [];
  assert.equal(command, `sub resume ${failing.subscriber.token}`);
  assert.equal((await terminal.rtm(`${command} ${asRoot()}`)).status, 0);
  await bus.root.call('POST', `/subscribers/${failing.subscriber.token}/pause`);
  const long = `${callback}?of=${'x'.repeat(1000)}`;
  await failing.subscriber.call('POST', '/subscription', { topics: [], callback: long });
  assert.match((await examined()).stdout, /\?of=x{20,90}…: this machine/);
  assert.match((await examined()).stdout, /paused by operator\n +An operator paused it/);
  assert.match(
    (await terminal.rtm(`doctor ${asRoot()}`)).stdout,
    /paused by operator\n +rtm audit says who paused/,
  );
  await failing.subscriber.call('DELETE', '/subscriber');
});

test('doctor says that a callback listens again, and when it is tried, or how at once', async (t) => {
  const { publisher, topic, subscriber } = await bus.scene(t);
  const { token, secret } = subscriber;
  const gone = await bus.receiver(t);
  const { callback } = gone;
  await gone.stop();
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, timeout: 0 });
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  await until(async () => (await subscriber.report()).health_points < 100);
  const own = `-b ${bus.url} -t ${token}:${secret}`;
  const batchOf = async () => {
    const [{ id = '' } = {}] = (await subscriber.call('GET', '/deliveries?state=retrying')) as {
      id: string;
    }[];
    const batch = (await subscriber.call('GET', `/deliveries/${id}`)) as { next_attempt_at: number };
    return { id, nextMs: batch.next_attempt_at };
  };
  await putOff(subscriber.token);
  const refused = await terminal.rtm(`doctor ${own}`);
  assert.match(refused.stdout, /^BAD +callback .*ECONNREFUSED.*\n +Deliveries fail: start the receiver/m);
  const port = Number(new URL(callback).port);
  const back = createServer((_, response) => void response.writeHead(204).end());
  t.after(() => back.close());
  await once(back.listen(port, '127.0.0.1'), 'listening');
  const { id, nextMs } = await batchOf();
  const { stdout } = await terminal.rtm(`doctor ${own}`);
  const at = new Date(nextMs).toISOString();
  const advice =
    `Something listens there again: the next attempt is at ${at}, and rtm delivery retry ${id} makes it now. ` +
    'The last attempt failed: ECONNREFUSED';
  assert.ok(stdout.includes(advice), `${stdout}\n${advice}`);

  const resumed = await terminal.rtm(`sub resume ${own}`);
  const note = `it was not paused; what failed is tried again at ${at}, or at once by rtm delivery retry ${id}\n`;
  assert.deepEqual(resumed, { ...silent, stderr: note });
  assert.deepEqual(await terminal.rtm(`sub resume ${token} ${asRoot()}`), { ...silent, stderr: note });
  await terminal.rtm(`delivery retry ${id} ${own}`);
  await until(async () => (await subscriber.report()).events.sent === 1);
  const again = await terminal.rtm(`sub resume ${own}`);
  assert.deepEqual(again, { ...silent, stderr: 'it was not paused\n' });
  await terminal.rtm(`sub pause ${own}`);
  assert.deepEqual(await terminal.rtm(`sub resume ${own}`), silent);
});

test('doctor says why the newest dead letter died, also when deliveries go well again', async (t) => {
  bus.announceError(/it is a dead letter now/);
  const { receiver, publisher, topic, subscriber } = await bus.scene(t);
  const { callback } = receiver;
  const subscription = { topics: [topic], callback, uuid: 'me', timeout: 0, max_attempts: 1 };
  await subscriber.call('POST', '/subscription', subscription);
  receiver.usual = answer.text(500, 'out of paper');
  const event = { type: 'noop', url: 'https://shop.example.com/1' };
  await publisher.call('POST', `/topics/${topic}`, event);
  await until(async () => (await subscriber.report()).dead_letters.batches === 1);
  const { token, secret } = subscriber;
  const examine = async () => {
    for (const [options, of] of [
      [`-b ${bus.url} -t ${token}:${secret}`, ''],
      [asRoot(), ` --subscriber ${token}`],
    ]) {
      const { stdout, status } = await terminal.rtm(`doctor ${options}`);
      const advice =
        'Batches became dead letters, the newest by max_attempts. The last attempt failed: HTTP 500, "out of paper". ' +
        `See rtm dead list${of}, mend the cause, then rtm dead retry --all${of}.`;
      assert.ok(stdout.includes(advice), stdout);
      assert.equal(status, 2);
    }
  };
  await examine();
  receiver.usual = answer.status(204);
  while ((await subscriber.report()).health_points < 100) {
    const before = receiver.deliveries.length;
    await publisher.call('POST', `/topics/${topic}`, event);
    await until(() => receiver.deliveries.length > before);
  }
  await examine();
  await subscriber.call('DELETE', '/subscriber');
});

test('doctor warns of events that were dropped within a day, and finds it bad if a subscriber was not told of all', async (t) => {
  const { receiver, topic, subscriber } = await bus.scene(t);
  const { token, secret } = subscriber;
  await subscriber.call('POST', '/subscription', { topics: [topic], callback: receiver.callback });
  const { keys, redis } = bus.store;
  const [from, lastMs] = [Date.now() - 3_600_000, Date.now() - 900_000];
  const topics = { 'topic:widgets': 1620, 'topic:routemaster_test': 1 };
  const drops = { batches: 2, events: 1621, from, to: from, ...topics };
  await redis.hset(keys.dropped(token), { ...drops, last_at: lastMs });
  const own = `-b ${bus.url} -t ${token}:${secret}`;
  const limited = `-b 127.0.0.1:${await inTrouble(t, 'redis_memory_high_mark_bytes 1e15')}`;
  const examined = async (options: string) => (await terminal.rtm(`doctor ${options}`)).stdout;
  const isWell = async () => (await terminal.rtm(`doctor ${own}`)).status === 0;
  const [dropped, since] = [lastMs, from].map((ms) => new Date(ms).toISOString());
  const found = 'WARN dropped      events were dropped: 1,621';
  const indent = ' '.repeat(18);
  const ask = `Ask the publishers of widgets what has changed since ${since}.\n`;
  const toOwn = await examined(`${limited} -t ${token}:${secret}`);
  const toOwnSaid = `${found}, the last at ${dropped}\n${indent}Memory of the bus ran short. ${ask}`;
  assert.ok(toOwn.includes(toOwnSaid), toOwn);
  const toRoot = await examined(`${limited} -t ${ROOT_KEY}`);
  assert.ok(toRoot.includes(`${found} of ${token}, the last at ${dropped}\n`), toRoot);
  assert.match(toRoot, /^ +Memory ran short: raise the limit of Redis/m);
  // Nothing else is left to do: the subscriber was told, and memory is as it should be.
  assert.ok(await isWell());
  const findings: object[] = JSON.parse(await examined(`--json ${own}`));
  assert.equal(findings.filter((each) => 'isWarning' in each && each.isWarning).length, 1);

  // Without a limit, memory is not short. This bus has none.
  const noLimit = 'Redis has no limit now: .*, or this is the demo, which drops a batch on purpose.';
  assert.match(await examined(own), new RegExp(`^ +${noLimit} ${ask}`, 'm'));
  assert.match(await examined(asRoot()), new RegExp(`^ +${noLimit}$`, 'm'));

  await redis.hset(keys.dropped(token), 'last_at', Date.now() - 90_000_000);
  assert.doesNotMatch(await examined(own), /dropped/);
  await redis.hset(keys.drop_notice(token), drops);
  assert.match(await examined(own), /^BAD +dropped /m);
  assert.equal(await isWell(), false);
  await subscriber.call('DELETE', '/subscriber');
});

test('doctor tells a client and root of events that joins lost for want of memory within a day', async (t) => {
  const { publisher, topic } = await bus.scene(t);
  const { token, secret } = publisher;
  const rules = { sources: [{ topic: `${topic}_paid` }], by: 'url', then: { topic } };
  await publisher.call('PUT', '/joins/ready', rules);
  const { keys, redis } = bus.store;
  const lastMs = Date.now() - 900_000;
  const drops = { batches: 2, events: 2000, from: lastMs, to: lastMs, last_at: lastMs };
  await redis.hset(keys.dropped(`join:ready:${token}`), drops);
  const examined = async (options: string) => (await terminal.rtm(`doctor ${options}`)).stdout;
  const own = `-b ${bus.url} -t ${token}:${secret}`;
  const at = new Date(lastMs).toISOString();
  const indent = ' '.repeat(18);
  const seen = await examined(own);
  assert.ok(
    seen.includes(
      `BAD  joins        joins lost events: 2,000 of ready, the last at ${at}\n${indent}Memory of the bus ran short. ` +
        `Keys that lack such an event are not completed, or expire: see what of ${topic}_paid was done since.\n`,
    ),
    seen,
  );
  const toRoot = await examined(asRoot());
  const line = `BAD  joins        joins lost events: 2,000 of ready of ${token}, the last at ${at}\n`;
  assert.ok(toRoot.includes(line), toRoot);

  await redis.hset(keys.dropped(`join:ready:${token}`), 'last_at', Date.now() - 90_000_000);
  assert.doesNotMatch(await examined(own), /lost/);
  await publisher.call('DELETE', '/joins/ready');
});

test('doctor takes it for well if a callback failed, and nothing waits for it now, or what waits did not fail', async (t) => {
  const { receiver, publisher, topic, subscriber } = await bus.scene(t);
  const publish = () =>
    publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  const examined = () => terminal.rtm(`doctor -b ${bus.url} -t ${subscriber.token}:${subscriber.secret}`);
  receiver.answers(...Array.from({ length: 3 }, () => answer.status(500)));
  await publish();
  await until(async () => (await subscriber.report()).events.sent === 1);
  const { stdout, status } = await examined();
  assert.match(stdout, /^ok +callback .*health \d+ of 100 after failures; nothing waits$/m);
  assert.equal(status, 0);

  const { callback } = receiver;
  await subscriber.call('POST', '/subscription', { topics: [topic], callback, timeout: 60_000, max: 100 });
  await publish();
  assert.match(
    (await examined()).stdout,
    /^ok +callback .*health \d+ of 100 after failures; no delivery fails now$/m,
  );
});

test('doctor takes it for well if a callback accepts again, while what failed waits for its next attempt', async (t) => {
  const { receiver, publisher, topic, subscriber } = await bus.scene(t);
  const publish = (n: number) =>
    publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: `https://shop.example.com/${n}` });
  receiver.usual = answer.status(500);
  await publish(1);
  await until(async () => (await subscriber.report()).health_points < 100);
  await putOff(subscriber.token);
  receiver.usual = answer.status(204);
  await publish(2);
  await until(async () => (await subscriber.report()).events.sent > 0);
  const { stdout } = await terminal.rtm(`doctor -b ${bus.url} -t ${subscriber.token}:${subscriber.secret}`);
  assert.match(
    stdout,
    /^ok +callback .* after failures; it accepts again, and what failed waits for its next attempt$/m,
  );
  await subscriber.call('DELETE', '/subscriber');
});

test('doctor finds a callback that nobody serves, unless the bus delivered to it within the last minute', async (t) => {
  const { receiver, publisher, topic, subscriber } = await bus.scene(t);
  const { token, secret } = subscriber;
  const examined = async () => (await terminal.rtm(`doctor -b ${bus.url} -t ${token}:${secret}`)).stdout;
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  await until(async () => (await subscriber.report()).events.sent === 1);
  await receiver.stop();
  assert.match(
    await examined(),
    /^ok +callback .*this machine does not reach it \(.*ECONNREFUSED.*\); no delivery failed lately$/m,
  );

  const { keys, redis } = bus.store;
  await redis.hset(keys.subscriber(token), 'last_attempted_at', Date.now() - 61_000);
  const bad =
    /^BAD +callback .*ECONNREFUSED.*; no delivery failed lately\n +Start the rec.* POST \/subscriber\/test,/m;
  assert.match(await examined(), bad);
  await subscriber.call('DELETE', '/subscriber');
});

test('doctor finds a callback to which only failures went within the last minute, and nothing waits', async (t) => {
  bus.announceError(/it is a dead letter now/);
  const { receiver, publisher, topic, subscriber } = await bus.scene(t);
  const { callback } = receiver;
  const subscription = { topics: [topic], callback, timeout: 0, max_attempts: 1 };
  await subscriber.call('POST', '/subscription', subscription);
  await receiver.stop();
  await publisher.call('POST', `/topics/${topic}`, { type: 'noop', url: 'https://shop.example.com/1' });
  await until(async () => (await subscriber.report()).dead_letters.batches === 1);
  await subscriber.call('DELETE', '/dead_letters');
  const own = `-b ${bus.url} -t ${subscriber.token}:${subscriber.secret}`;
  for (const options of [own, asRoot()]) {
    const { stdout } = await terminal.rtm(`doctor ${options}`);
    assert.match(
      stdout,
      /^BAD +callback .*ECONNREFUSED.* after failures; nothing waits\n +Start the receiver/m,
    );
  }
  await subscriber.call('DELETE', '/subscriber');
});
