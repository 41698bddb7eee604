import type { Helper } from '../../harness/measuring/helper.ts';
import { startWithSink } from '../bus.ts';
import { fill } from '../filling.ts';
import type { Plan } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { Figures } from '../result.ts';
import type { Stage } from '../stage.ts';
import { counted } from '../workload.ts';

/**
 * The memory at which dropping ends (the low mark), as a multiple of the memory of a Redis without events. The factor
 * is so small that nearly all of a million events are dropped. The bus puts the low mark at 80 % of the limit.
 */
const LOW_MARK = 2;
const maxBytes = (emptyBytes: number) => Math.ceil((emptyBytes * LOW_MARK) / 0.8);
const SLOW_MICROS = 200;
const BEGAN = 'Redis is short of memory; dropping the oldest dead letters and batches';

/**
 * A worker finds that memory is exhausted, and drops everything that is queued. Its log says when dropping began and
 * ended.
 */
export async function autodropPlan(stage: Stage, load: Helper<LoadCalls>, events: number): Promise<Plan> {
  const { bus, sink } = await startWithSink(stage);
  await bus.store.keep();
  const row = counted(events, 'event');
  return {
    title: 'backlog: autodrop',
    notes: [
      'batches of 100, but for the few that are being delivered; the longest calls as Redis measured them, by the clock',
      'others: the worker that has just begun acquires batches, which nobody takes, and sweeps',
    ],
    cases: [
      {
        row,
        measure: async (): Promise<Figures> => {
          await bus.store.restore();
          const max = maxBytes(await bus.store.usedBytes());
          await fill(load, bus, events);
          await sink.call('hold');
          await bus.store.watchSlow(SLOW_MICROS);
          const worker = bus.worker({ ROUTEMASTER_REDIS_MAX_MEM: String(max) });
          const began = await worker.logs(BEGAN);
          const ended = await worker.logs('dropped the oldest batches');
          const longest = await bus.store.longestMs('autodrop');
          await sink.call('release');
          await worker.stop();
          return { seconds: (timeOf(ended) - timeOf(began)) / 1000, ...longest };
        },
      },
    ],
    targets: [
      { text: 'autodrop of a million events ≤ 2 s', bars: [{ row, metric: 'seconds', max: 2 }] },
      {
        text: 'autodrop in scripts that each block Redis ≤ 5 ms',
        bars: [{ row, metric: 'scriptMs', max: 5 }],
      },
    ],
  };
}

function timeOf({ time }: Record<string, unknown>): number {
  return Date.parse(String(time));
}
