import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, basic, send } from '../../../harness/http/api.ts';
import type { Client } from '../../../harness/http/client.ts';
import { ROOT_KEY } from '../../../harness/processes/bus_environment.ts';
import { RunningBus } from '../../../harness/processes/running_bus.ts';
import { until } from '../../../harness/until.ts';
import {
  answerParameters,
  challengeFor,
  header,
  type Parameters,
  parametersOf,
} from '../../authentication/digest_client.ts';

const BODY = '{"type":"noop","url":"https://shop.example.com/1"}';
const bus = RunningBus.forTests();
const others: number[] = [];
const ROOT = { authorization: basic(ROOT_KEY, 'x') };
const newestPort = () => Number(new URL(bus.url).port);

const publish = (authorization?: string, port = newestPort()) =>
  send(port, 'POST', '/topics/widgets', authorization === undefined ? {} : { authorization }, BODY);
const digestsIn = ({ headers }: Answer) =>
  ([headers['www-authenticate'] ?? []].flat() as string[])
    .flatMap((each) => each.split(/, (?=Digest|Basic)/))
    .filter((each) => each.startsWith('Digest'));
const challenge = async () => challengeFor('SHA-256', digestsIn(await publish()));
const answerTo = (given: Parameters, { token: user, secret }: Client) =>
  header(answerParameters(given, { user, secret, uri: '/topics/widgets', method: 'POST' }));

/** Asserts that a recorded request is refused when it is repeated after Redis has lost its memory of it. */
async function assertRefusedAfter(
  lose: () => Promise<unknown>,
  recorded: string,
  client: Client,
): Promise<void> {
  await lose();
  await until(() => bus.store.redis.status === 'ready');
  for (const port of [newestPort(), ...others]) {
    // Until a process has reached Redis again, it answers 503.
    await until(async () => (await send(port, 'GET', '/pulse', ROOT)).status === 204);
    const again = await publish(recorded, port);
    assert.equal(again.status, 401);
    const challenges = digestsIn(again).map(parametersOf);
    assert.ok(
      challenges.every(({ stale }) => stale === 'true'),
      again.text,
    );
    const next = answerTo(challengeFor('SHA-256', digestsIn(again)), client);
    assert.equal((await publish(next, port)).status, 204, 'its client goes on with the new challenge');
  }
}

test('a recorded publish is not accepted again when Redis has lost the memory of it', async () => {
  const client = await bus.client('shop');
  others.push(newestPort());
  await bus.start('web');
  const first = answerTo(await challenge(), client);
  await bus.store.redis.save();
  assert.equal((await publish(first)).status, 204);
  const restart = () => bus.redis.kill('SIGKILL').then(() => bus.redis.restart());
  await assertRefusedAfter(restart, first, client);

  const second = answerTo(await challenge(), client);
  assert.equal((await publish(second)).status, 204);
  const { redis, keys } = bus.store;
  const lose = async () => {
    const lost = await redis.keys(`${bus.store.prefix}digest:*`);
    assert.ok(lost.includes(keys.digest_keys()));
    await redis.del(...lost);
  };
  await assertRefusedAfter(lose, second, client);
});
