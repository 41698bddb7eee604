import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Attacker } from '../../../harness/fences/attacker.ts';
import { besideAttack } from '../../../harness/fences/beside_attack.ts';
import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';
import { type Answer, problemIn, send } from '../../../harness/http/api.ts';
import type { Client } from '../../../harness/http/client.ts';
import { until } from '../../../harness/until.ts';
import {
  answerParameters,
  challengeFor,
  header,
  type Parameters,
  parametersOf,
} from '../../authentication/digest_client.ts';

const REDIS_BYTES = 16 * 1024 * 1024;
/** Number of requests: at 300 bytes for each, more than 5 % of that Redis. */
const ENOUGH = (0.05 * REDIS_BYTES) / 300;
/** Counts between two requests. The bit field of a nonce's uses grows by this many bits each time. */
const STEP = 512;
const MAX_COUNT = 65_535;
const TOPIC = '/topics/nonces';
const bus = busWithDefaultLimits({ redis: { maxmemory: String(REDIS_BYTES) } });
const victim = Victim.forTests(bus);

const call = (method: string, path: string, authorization?: string) =>
  send(
    Number(new URL(bus.url).port),
    method,
    path,
    authorization === undefined ? {} : { authorization },
    method === 'POST' ? '{"type":"noop","url":"https://evil.example.com/1"}' : undefined,
  );
const digestsIn = ({ headers }: Answer) =>
  ([headers['www-authenticate'] ?? []].flat() as string[])
    .flatMap((each) => each.split(/, (?=Digest|Basic)/))
    .filter((each) => each.startsWith('Digest'));
const challenge = async () => challengeFor('SHA-256', digestsIn(await call('GET', '/pulse')));
const digest = (
  given: Parameters,
  { token: user, secret }: Client,
  method: string,
  uri: string,
  count: number,
) => header(answerParameters(given, { user, secret, uri, method, count }));
const codeOf = (answer: Answer) => (answer.status === 429 ? problemIn(answer).code : answer.status);

test('a client with many Digest nonces takes a small part of a small Redis', async (t) => {
  const { client } = await Attacker.start(bus, t);
  let requests = 0;
  let nonce = await challenge();
  let count = 0;
  /**
   * Sends requests while `go` returns true. Each uses a count one step further; the call limit refuses most of them.
   */
  const refusal = async (go: () => boolean): Promise<boolean> => {
    while (go()) {
      if (count + STEP > MAX_COUNT) [nonce, count] = [await challenge(), 0];
      else count += STEP - 1;
      requests++;
      const code = codeOf(await call('GET', '/pulse', digest(nonce, client, 'GET', '/pulse', count)));
      if (code === 'too_many_nonces') return true;
    }
    return false;
  };
  await besideAttack(victim, (signal) => refusal(() => !signal.aborted));
  assert.ok(await refusal(() => requests < ENOUGH), `${requests} requests were not too many`);

  const { redis, keys } = bus.store;
  const nonces = await redis.keys(keys.nonce_uses('*'));
  const bytes = await Promise.all(nonces.map((key) => redis.memory('USAGE', key)));
  const total = bytes.reduce<number>((sum, each) => sum + Number(each), 0);
  assert.ok(total < 0.05 * REDIS_BYTES, `${nonces.length} nonces take ${total} bytes`);

  await client.publish('of_nonces', { url: 'https://evil.example.com/2' });
  const other = digest(await challenge(), victim.client, 'POST', '/topics/victims', 1);
  assert.equal((await call('POST', '/topics/victims', other)).status, 204, 'another client goes on');
});

test('what was refused for too many nonces is refused when it is sent again later, and its client goes on', async (t) => {
  const { client } = await Attacker.start(bus, t);
  const publish = (given: Parameters, count: number) =>
    call('POST', TOPIC, digest(given, client, 'POST', TOPIC, count));
  const known = await challenge();
  assert.equal((await publish(known, 1)).status, 204);

  const fullAtUs = (Date.now() + 421_000) * 1000;
  await bus.store.redis.set(bus.store.keys.nonce_quota(client.token), String(fullAtUs), 'PX', 421_000);
  const recorded = await challenge();
  const refused = await publish(recorded, 1);
  assert.equal(codeOf(refused), 'too_many_nonces');
  assert.equal(refused.headers['retry-after'], '1');
  assert.equal((await publish(known, 2)).status, 204, 'a nonce that is known is good for more');

  let next = known;
  await until(async () => {
    next = await challenge();
    return (await publish(next, 1)).status === 204;
  });
  assert.equal((await publish(next, 2)).status, 204);
  const again = await publish(recorded, 1);
  assert.equal(again.status, 401);
  assert.ok(digestsIn(again).every((each) => parametersOf(each).stale === 'true'));
});
