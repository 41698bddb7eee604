import { describe } from 'node:test';
import { breaks } from '../../../harness/scripts/breaking.ts';

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
