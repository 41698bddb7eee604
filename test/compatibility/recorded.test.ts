import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { basic } from '../../harness/http/api.ts';
import { noOpenssl, selfSigned } from '../../harness/http/certificates.ts';
import {
  answer,
  type Delivery,
  type Receiver,
  type Answer as ReceiverAnswer,
} from '../../harness/http/receiver.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { WebProcess } from '../../harness/processes/web_process.ts';
import { type Exchange, readTranscript } from '../http/transcript.ts';
import { type Expected, has, Replay } from './replay.ts';

/** Reasons why an answer differs on purpose from the recorded answer of the Ruby Routemaster. */
const REASONS = {
  fault: 'Routemaster failed with 500 where the request is wrong, or right',
  wider: 'Routemaster refused what is taken here; nobody can rely on that',
  timestamp:
    'it cannot be delivered: Routemaster failed as soon as the topic had a subscriber, or sent a float',
  name: 'no topic name has two lines; listing the topics failed from then on',
  claim: 'an event that is refused claims no topic',
  owner: 'only its publisher or root deletes a topic',
  unclaimed:
    'a topic that nobody publishes to ends with its last subscription; else anybody could fill the bus with them',
  credential: 'a uuid is a credential, and so is a token without a secret: others get null, or a public name',
  cut: 'a batch has 10,000 events at most',
  health: 'a check that fails for what the caller sends would end healthy processes',
  time: 'ISO 8601, which whatever parses the other parses too',
  root: 'root is no subscriber: 401, as for any call of another role',
  readme: 'the README of Routemaster and its Go client have this path; it answered 404',
  left: 'the subscriber could leave already, where Routemaster failed',
} as const;

const used = new Set<string>();

/** Splits `answer ≠ status reason,… answer` into the recorded answer and the answer of this bus. */
function expectedOf({ status, answer = '' }: Exchange): Expected {
  const [recorded = '', other] = answer.split(/(?:^| )≠ /);
  if (other === undefined) return { status, answer: recorded };
  const [, digits, reasons = '', ours = ''] = /^(\d+) ([a-z,]+) ?(.*)$/.exec(other) ?? [];
  for (const reason of reasons.split(',')) {
    assert.ok(reason in REASONS, `${reason} is a reason`);
    used.add(reason);
  }
  return { status: Number(digits), answer: ours };
}

/**
 * Answers with the status in the path, such as /rc404. At /events it is slow, so that later calls see queued events.
 */
function usual({ path }: Delivery): ReceiverAnswer {
  if (path === '/events') return answer.late(2000);
  return answer.status(Number(/^\/rc(\d+)$/.exec(path)?.[1] ?? 204));
}

/** Starts one more web process, which redirects plain http. Resolves with its port. */
async function forcingSsl(t: TestContext, bus: RunningBus): Promise<number> {
  const web = WebProcess.during(t, {
    ROUTEMASTER_REDIS_URL: bus.redis.url,
    ROUTEMASTER_COMPATIBILITY: 'routemaster',
    FORCE_SSL: 'yes',
  });
  return web.port();
}

/** Checks the four events of the first section: the second has a timestamp, the third has data, and `max` is 3. */
function assertDelivered({ deliveries }: Receiver): void {
  const authorization = basic('delivery-token', 'x');
  const batches = deliveries.filter(({ headers }) => headers.authorization === authorization).slice(0, 2);
  const url = 'https://app.example.com/widgets';
  const recorded = [
    [
      { topic: 'widgets', type: 'create', url: `${url}/1`, t: '…' },
      { topic: 'widgets', type: 'update', url: `${url}/2`, t: 1795166820722 },
      { topic: 'widgets', type: 'delete', url: `${url}/3`, t: '…', data: { color: 'teal', n: 1 } },
    ],
    [{ topic: 'widgets', type: 'noop', url: `${url}/4`, t: '…' }],
  ];
  assert.equal(batches.length, recorded.length);
  for (const [index, { method, path, headers, events }] of batches.entries()) {
    assert.deepEqual([method, path, headers['content-type']], ['POST', '/events', 'application/json']);
    assert.ok(has(events, recorded[index]), JSON.stringify(events));
    for (const { id, ...rest } of events)
      assert.deepEqual(Object.keys(rest).slice(0, 4), ['topic', 'type', 'url', 't'], id);
  }
}

/** Removes all topics and clients, so that the next section begins with an empty bus. */
async function removeAll({ root }: RunningBus): Promise<void> {
  for (const { name } of (await root.call('GET', '/topics')) as { name: string }[])
    await root.call('DELETE', `/topics/${name}`);
  for (const { token } of (await root.call('GET', '/api_tokens')) as { token: string }[])
    await root.call('DELETE', `/api_tokens/${token}`);
}

const FIRST = 'one bus, from its first client on';

describe('a bus in compatibility mode answers as the Ruby Routemaster was seen to', {
  skip: noOpenssl,
}, () => {
  const bus = RunningBus.forTests({
    env: { ROUTEMASTER_COMPATIBILITY: 'routemaster', ROUTEMASTER_SSL_VERIFY: 'no' },
  });

  for (const { title, exchanges } of readTranscript(join(import.meta.dirname, 'recorded.txt'))) {
    test(title, async (t) => {
      t.after(() => removeAll(bus));
      const receiver = await bus.receiver(t, selfSigned());
      receiver.usual = (response, delivery) => usual(delivery)(response, delivery);
      const port = title === 'FORCE_SSL' ? await forcingSsl(t, bus) : Number(new URL(bus.url).port);
      const replay = new Replay(port, receiver);
      for (const each of exchanges) await replay.exchange(each, expectedOf(each));
      if (title === FIRST) assertDelivered(receiver);
    });
  }

  test('and for each difference there is a reason', () => {
    assert.deepEqual([...used].sort(), Object.keys(REASONS).sort());
  });
});
