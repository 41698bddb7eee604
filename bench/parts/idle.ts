import { setTimeout as sleep } from 'node:timers/promises';
import { cpuSince, percentOfCore } from '../../harness/measuring/cpu.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { type Bus, startBuses } from '../bus.ts';
import { fill } from '../filling.ts';
import { measureInTurn, type Part } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import { CommandCount } from '../redis_monitor.ts';
import type { Figures } from '../result.ts';
import { TOPIC } from '../workload.ts';

/** `settleMs` gives processes the time to flush their counters, which they do every five seconds. */
const FULL = { settleMs: 12_000, windowMs: 20_000 };
const QUICK: typeof FULL = { settleMs: 0, windowMs: 1500 };
const EVENTS = 100;

/** The cost of a bus that has nothing to do. */
export const idle: Part = {
  name: 'idle',
  title: 'commands and CPU of a bus that has nothing to do',
  run: async (stage, options) => {
    const { settleMs, windowMs } = options.quick ? QUICK : FULL;
    const sink = stage.helper<SinkCalls>('sink.ts');
    const load = stage.helper<LoadCalls>('load.ts');
    const callback = await sink.call('listen');
    const alone = await stage.redis();
    const started = await startBuses(stage, options);
    const buses: ((typeof started)[number] & { worker: BusProcess })[] = [];
    for (const each of started) {
      const { bus } = each;
      const worker = await bus.readyWorker({ ROUTEMASTER_WORKER_THREADS: '4' });
      await bus.audience(1, { topics: [TOPIC], callback, timeout: 0, max: 100 });
      await sink.call('reset');
      await fill(load, bus, EVENTS);
      await sink.call('reach', EVENTS);
      buses.push({ ...each, worker });
    }
    await sleep(settleMs);
    const floor = async (): Promise<Figures> => {
      const used = cpuSince({ redis: alone.pid });
      await sleep(windowMs);
      return { redisPercent: percentOfCore(used().redis, windowMs) };
    };
    const cases = [
      { row: 'Redis alone', measure: floor },
      ...buses.map(({ name, bus, others, worker }) => ({
        row: name,
        floors: ['Redis alone', ...others],
        measure: () => measureBus(bus, worker, windowMs),
      })),
    ];
    const title = 'idle: one web process, one worker process of 4 threads';
    const notes = [
      `over ${windowMs / 1000} s; CPU as a share of one core`,
      'commands are those that Redis is sent; the commands of scripts are not counted',
    ];
    return measureInTurn('idle', [{ title, notes, cases, targets: TARGETS }], options);
  },
};

async function measureBus(bus: Bus, worker: BusProcess, windowMs: number): Promise<Figures> {
  const commands = await CommandCount.start(bus.redis.url);
  const used = cpuSince({ web: bus.web.pid, worker: worker.pid, redis: bus.redis.pid });
  await sleep(windowMs);
  const { web, worker: its, redis } = used();
  return {
    commandsPerSecond: commands.stop(windowMs),
    busPercent: percentOfCore(web + its, windowMs),
    webPercent: percentOfCore(web, windowMs),
    workerPercent: percentOfCore(its, windowMs),
    redisPercent: percentOfCore(redis, windowMs),
  };
}

const TARGETS = [
  {
    text: '≤ 1 command a second a process',
    bars: [{ row: 'bus', metric: 'commandsPerSecond' as const, max: 1 }],
  },
  {
    text: 'web and worker together < 0.5 % of a core',
    bars: [{ row: 'bus', metric: 'busPercent' as const, max: 0.499 }],
  },
];
