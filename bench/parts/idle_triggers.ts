import { setTimeout as sleep } from 'node:timers/promises';
import { openStore } from '../../harness/redis/store.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import type { Timing } from '../../src/flow/triggers/schedule.ts';
import { Bus } from '../bus.ts';
import type { Options } from '../options.ts';
import { type Measured, measureInTurn } from '../part.ts';
import { CommandCount } from '../redis_monitor.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted } from '../workload.ts';

/** `settleMs` gives processes the time to flush their counters. */
const FULL = { triggers: 100_000, settleMs: 12_000, windowMs: 60_000 };
const QUICK: typeof FULL = { triggers: 500, settleMs: 0, windowMs: 1000 };
const TRIGGERS_AT_A_TIME = 100;
/** Number of clients that the triggers belong to. */
const CLIENTS = 100;
/** Every weekday in the morning, but in a far year. */
const RARE: Timing = {
  schedule: { cron: '0 9 * * MON-FRI', timezone: 'Europe/London' },
  start: 1_999_000_000_000,
  end: null,
  offset: 0,
};

/** Compares a bus that has triggers, none of which is due, with one that has none. */
export async function idleTriggers(stage: Stage, options: Options): Promise<Measured[]> {
  const { triggers, settleMs, windowMs } = options.quick ? QUICK : FULL;
  const buses = [await Bus.start(stage), await Bus.start(stage)] as const;
  const bytesEach = await fillWithTriggers(buses[1], triggers);
  for (const bus of buses) await bus.readyWorker();
  await sleep(settleMs);
  const count = async (bus: Bus): Promise<Figures> => {
    const commands = await CommandCount.start(bus.redis.url);
    await sleep(windowMs);
    return { commandsPerSecond: commands.stop(windowMs) };
  };
  let idle: Promise<Figures>[] = [];
  const withTriggers = counted(triggers, 'trigger');
  const plan = {
    title: 'flow: triggers that are not due',
    notes: [
      `one web and one worker process each, over ${windowMs / 1000} s; commands that Redis is sent`,
      'a trigger: a cron expression with a time zone, and 33 bytes of data',
    ],
    cases: [
      {
        row: 'no triggers',
        measure: async () => {
          // Both buses are counted at the same time, since nothing that one does while idle disturbs the other.
          idle = buses.map(count);
          return (await idle[0]) as Figures;
        },
      },
      {
        row: withTriggers,
        floors: ['no triggers'],
        measure: async () => ({ ...(await idle[1]), bytesEach }),
      },
    ],
    targets: [
      {
        text: 'no more commands than without triggers',
        bars: [
          {
            ...{ row: withTriggers, floor: 'no triggers' },
            ...{ metric: 'commandsPerSecond' as const, max: 1.1 },
          },
        ],
      },
    ],
  };
  return measureInTurn('flow', [plan], options);
}

/** Returns the bytes of Redis that each trigger takes. */
async function fillWithTriggers(bus: Bus, count: number): Promise<number> {
  const store = await openStore(bus.redis.url);
  const before = await bus.store.usedBytes();
  await inSlices(count, async (index) => {
    await putTrigger(store, `report_${index}`, {
      client: `client-${index % CLIENTS}--0123456789abcdef`,
      topic: `topic_${index % CLIENTS}`,
      timing: RARE,
      nextAt: RARE.start + index,
      data: '{"customer":12345,"kind":"daily"}',
    });
  });
  const bytes = ((await bus.store.usedBytes()) - before) / count;
  store.redis.disconnect();
  return bytes;
}

/** Calls `put` for each index below `count`, some at a time. */
export async function inSlices(count: number, put: (index: number) => Promise<void>): Promise<void> {
  for (let from = 0; from < count; from += TRIGGERS_AT_A_TIME) {
    const length = Math.min(TRIGGERS_AT_A_TIME, count - from);
    await Promise.all(Array.from({ length }, (_, place) => put(from + place)));
  }
}
