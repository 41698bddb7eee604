import { setTimeout as sleep } from 'node:timers/promises';
import { cpuSince } from '../../harness/measuring/cpu.ts';
import { type Bus, startBuses } from '../bus.ts';
import { fill } from '../filling.ts';
import { measureInTurn, type Part } from '../part.ts';
import type { LoadCalls } from '../processes/load.ts';
import type { SinkCalls } from '../processes/sink.ts';
import { CommandCount } from '../redis_monitor.ts';
import type { Figures } from '../result.ts';
import type { Running } from '../stage.ts';
import { TOPIC } from '../workload.ts';

/** `settleMs` gives processes the time to flush their counters, which they do every five seconds. */
const FULL = { settleMs: 12_000, windowMs: 20_000 };
const QUICK: typeof FULL = { settleMs: 0, windowMs: 1500 };
const PROCESSES = 2;
const EVENTS = 100;

/** The cost of a bus that has nothing to do. */
export const idle: Part = {
  name: 'idle',
  title: 'commands and CPU of a bus that has nothing to do',
  run: async (stage, options) => {
    const { settleMs, windowMs } = options.quick ? QUICK : FULL;
    const sink = stage.helper<SinkCalls>('sink.ts');
    const load = stage.helper<LoadCalls>('load.ts');
    const callback = `http://127.0.0.1:${await sink.call('listen')}/events`;
    const alone = await stage.redis();
    const started = await startBuses(stage, options);
    const buses: { name: string; bus: Bus; worker: Running }[] = [];
    for (const { name, bus } of started) {
      const worker = await bus.readyWorker({ ROUTEMASTER_WORKER_THREADS: '4' });
      await bus.audience(1, { topics: [TOPIC], callback, timeout: 0, max: 100 });
      await sink.call('reset');
      await fill(load, bus, EVENTS);
      await sink.call('reach', EVENTS);
      buses.push({ name, bus, worker });
    }
    await sleep(settleMs);
    const floor = async (): Promise<Figures> => {
      const used = cpuSince({ redis: alone.pid });
      await sleep(windowMs);
      return { redisPercent: percent(used().redis, windowMs) };
    };
    const cases = [
      { row: 'Redis alone', measure: floor },
      ...buses.map(({ name, bus, worker }, index) => ({
        row: name,
        floors: ['Redis alone', ...buses.slice(index + 1).map((other) => other.name)],
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

async function measureBus(bus: Bus, worker: Running, windowMs: number): Promise<Figures> {
  const commands = await CommandCount.start(bus.redis.url);
  const used = cpuSince({ web: bus.web.pid, worker: worker.pid, redis: bus.redis.pid });
  await sleep(windowMs);
  const { web, worker: its, redis } = used();
  return {
    commandsPerSecond: commands.stop() / PROCESSES / (windowMs / 1000),
    busPercent: percent(web + its, windowMs),
    webPercent: percent(web, windowMs),
    workerPercent: percent(its, windowMs),
    redisPercent: percent(redis, windowMs),
  };
}

function percent(micros: number, windowMs: number): number {
  return micros / 1000 / windowMs / 0.01;
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
