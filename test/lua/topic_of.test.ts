import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import { packed } from '../../harness/batches_of_alice.ts';
import { Bus } from '../../harness/bus.ts';
import { assertConsistent } from '../../harness/invariants.ts';
import { RUBY_EVENT, RUBY_EVENT_WITH_DATA } from '../../harness/ruby_redis.ts';
import { TestStore } from '../../harness/store.ts';

const redis = new TestStore();
const bus = new Bus(() => redis.store);

beforeEach(() => redis.flush());
afterEach(() => assertConsistent(redis.store));

const topicsOf = async (...packed: (Buffer | Uint8Array | string)[]) => {
  await bus.subscribe('alice', { topics: ['widgets'] });
  await bus.publish(
    'a',
    'widgets',
    packed.map((each) => (typeof each === 'string' ? each : Buffer.from(each))),
  );
  await bus.autodrop(1);
  return (await bus.gaps('alice')).ever?.topics;
};

test('the topics of what was dropped are read from events of Routemaster, of any timestamp, with names of any length', async () => {
  const times = [
    0,
    127,
    128,
    255,
    65_535,
    65_536,
    2 ** 32 - 1,
    2 ** 32,
    -1,
    -33,
    -129,
    -32_769,
    -(2 ** 40),
    1.5,
  ];
  const names = [1, 31, 32, 64].map((length) => 'a'.repeat(length));
  assert.deepEqual(
    await topicsOf(
      ...[RUBY_EVENT, RUBY_EVENT_WITH_DATA],
      ...times.map((time) => packed('gadgets', time)),
      ...names.map((name) => packed(name)),
    ),
    { widgets: 2, gadgets: times.length, ...Object.fromEntries(names.map((name) => [name, 1])) },
  );
});

test('they are read from events that are written in another way', async () => {
  const others = [
    { o: 'gadgets', t: 1 },
    { t: 1, y: 'noop', o: 'gadgets' },
    { t: 'now', o: 'gadgets', d: null },
  ];
  assert.deepEqual(await topicsOf(...others.map((fields) => encode(['e', fields]))), { gadgets: 3 });
});

test('what has no topic that can be read counts as of none', async () => {
  const whole = packed('widgets');
  const cut = Array.from({ length: 24 }, (_, length) => whole.subarray(0, length + 1));
  const odd = [
    ...[1, 'e', null, [], ['e'], ['e', 1], ['e', {}], ['e', { o: 1 }], { o: 'widgets' }].map((each) =>
      encode(each),
    ),
    ...['Widgets', 'wid gets', 'wid"gets', 'ü', 'a'.repeat(65), 'a'.repeat(300), ''].map((o) =>
      encode(['e', { t: 1, o, y: 1, u: 1, d: 1 }]),
    ),
    Buffer.alloc(100_000, 0x91),
  ];
  const readable = cut.filter((bytes) => bytes.includes('widgets')).length;
  const { widgets = 0, ...rest } = (await topicsOf('', ...cut, ...odd)) ?? {};
  assert.deepEqual([widgets, rest], [readable, { '': 1 + cut.length + odd.length - readable }]);
});
