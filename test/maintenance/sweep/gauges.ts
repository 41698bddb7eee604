import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { breaks, bus, found, redis } from '../../../harness/scripts/breaking.ts';
import { nthWord } from '../../../harness/scripts/names.ts';
import { assertNothingToSweep } from '../../../harness/scripts/sweep.ts';

describe('gauges', () => {
  for (const [gauge, token, kind] of [
    ['gauge_events', 'alice', 'events_miscounted'],
    ['gauge_batches', 'alice', 'batches_miscounted'],
    ['dead_letters_events', 'carol', 'dead_letters_miscounted'],
  ] as const) {
    breaks(
      `too high: ${gauge}`,
      ({ redis, keys }) => redis.hincrby(keys[gauge](), token, 1),
      `${kind} ${token}`,
    );
    breaks(
      `too low: ${gauge}`,
      ({ redis, keys }) => redis.hincrby(keys[gauge](), token, -1),
      `${kind} ${token}`,
    );
    breaks(`missing: ${gauge}`, ({ redis, keys }) => redis.hdel(keys[gauge](), token), `${kind} ${token}`);
    breaks(
      `of a subscriber with nothing: ${gauge}`,
      ({ redis, keys }) => redis.hset(keys[gauge](), 'nobody', 0),
      `${kind} nobody`,
    );
  }
});

describe('a queue too long to be counted in one call', () => {
  const LONG = 5000;

  beforeEach(async () => {
    await bus.subscribe('alice', { max: 1, inFlight: 50 });
    for (let n = 0; n < LONG; n += 1000)
      await bus.publish(nthWord(26 + n / 1000), 'widgets', Array(1000).fill('e'));
  });

  test('is counted in several, though batches come and go', async () => {
    const { redis: commands, keys } = redis.store;
    let over = false;
    const traffic = async () => {
      for (let n = 0; !over; n++) {
        await bus.publish(nthWord(52 + n), 'widgets', Array(30).fill('e'));
        const { grants } = await bus.acquire(
          Array.from({ length: 20 }, (_, i) => `v${i}`),
          { laneLimit: 50 },
        );
        for (const { worker, job } of grants) await bus.ack(worker, job);
      }
    };
    const busy = traffic();
    await assertNothingToSweep(redis.store);
    await commands.hincrby(keys.gauge_events(), 'alice', -3);
    await commands.hincrby(keys.gauge_batches(), 'alice', 1);
    assert.deepEqual(await found(), ['batches_miscounted alice', 'events_miscounted alice']);
    over = true;
    await busy;
    await assertNothingToSweep(redis.store);
  });
});
