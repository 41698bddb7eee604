import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { aroundTests } from '../../harness/around_tests.ts';
import { RunningBus } from '../../harness/processes/running_bus.ts';
import { until } from '../../harness/until.ts';
import { layoutLines } from './layout_lines.ts';
import { playScene, SCENE_SETTINGS } from './layout_scene.ts';

/** The layout that the processes left of the last commit without several partitions (test/fixtures/README.md). */
const file = join(import.meta.dirname, '../fixtures/one_partition.txt');
const FORMER = readFileSync(file, 'utf8').trimEnd().split('\n');

/** Lines that came since then, by features that have nothing to do with the number of partitions. */
const LATER = [
  // When a secret was replaced, and when a client called last.
  /^api_token:\S+ hash (secret_at|seen_at): <ms>$/,
  // The entry of the bus itself when it pauses a subscriber.
  /^audit stream (role: bus|address: |code: callback_gone)$/,
  // How many subscriptions ended with a deleted topic.
  /^audit stream subscriptions: #?$/,
  // When the bus began.
  /^begun_at string /,
  // When a batch was closed.
  /^batches:closed hash /,
  // The Redis in which batches last got events.
  /^batches:run string /,
  // The calls that were refused.
  /^counters hash msgpack \["calls\.refused",/,
  // Which delivery logs were written when.
  /^deliveries:trail:/,
  // When events of a subscriber were last dropped.
  /^dropped:\S+ hash last_at: <ms>$/,
  // By how much the numbers of leases are ahead of a clock that was set back.
  /^leases:ahead /,
  // When a client's rate was stored, by which it is known that Redis's clock was set back.
  /^rate:\S+ hash \(expires\) at: <µs>$/,
  // When a source was added to a join.
  /^subscriber:join:\S+ hash added_at: /,
  // How each subscriber stood at the last sample.
  /^standings string \(expires\) /,
];

/** What such features have added to lines that were there, and what the lines are without it. */
const CHANGED: [added: RegExp, without: string][] = [
  // The random spaces of an event whose id its publisher chose.
  [/(?<="t":)[ \t]{8}/, ''],
  // The time of closing, second in each record of a delivery log.
  [/^(deliveries:(?:taken|dropped):\S+ list <µs>),(?:<ms>|#)(?=,<ms>,)/, '$1'],
  // How many events were dropped, last in the history of the bus.
  [/^(history:(?:fine|coarse):bus list \(expires\) msgpack \[#(?:,#){12}),#(?=\])/, '$1'],
  // When a quota was stored, by which it is known that Redis's clock was set back.
  [/^(idempotency:quota:\S+ string \(expires\) <µs>) <µs>$/, '$1'],
  // The ids of spare workers.
  [/^(workers(?::main)? (?:set|hash) )spare\.(?=<20>)/, '$1'],
];

/** Lines that need not be there any more. */
const GONE = [
  // Room of batches in bytes. Small events are no longer counted, whatever the batch's maximum of events is.
  /^batches:room hash /,
  // The bytes of triggers, which are added up when a definition grows.
  /^triggers:bytes hash /,
];

const formerly = (line: string) =>
  CHANGED.reduce((text, [added, without]) => text.replace(added, without), line);

let bus: RunningBus;
aroundTests(
  async () => {
    bus = await RunningBus.open(SCENE_SETTINGS);
    bus.announceError(/^gave up on a batch/);
  },
  () => bus.close(),
);

test('with one partition the layout is what it was before there were several', async (t) => {
  await bus.start('web');
  const found = new Set<string>();
  const look = async () => {
    for (const line of await layoutLines(bus.store.redis))
      if (!LATER.some((pattern) => pattern.test(line))) found.add(formerly(line));
  };
  await playScene(t, bus, look);

  // Which counts there are depends a little on the speed of the machine, so none has to be there.
  const wanted = FORMER.filter((line) => ![/^counters /, ...GONE].some((pattern) => pattern.test(line)));
  const missing = () => wanted.filter((line) => !found.has(line));
  const isComplete = async () => {
    await look();
    return missing().length === 0;
  };
  await until(isComplete, { timeoutMs: 10_000, everyMs: 100 }).catch(() => {});
  const added = [...found].filter((line) => !FORMER.includes(line));
  const advice =
    'What a feature adds to the layout goes into LATER or CHANGED, what it no longer stores into GONE.';
  assert.deepEqual({ missing: missing(), added }, { missing: [], added: [] }, advice);
});
