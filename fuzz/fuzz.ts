import { cpuMicros, residentMiB } from '../harness/measuring/cpu.ts';
import { Helper } from '../harness/measuring/helper.ts';
import type { Bar } from '../harness/measuring/report.ts';
import { percentile, spread } from '../harness/measuring/statistics.ts';
import { ROOT_KEY } from '../harness/processes/bus_environment.ts';
import { type Owner, RunningBus } from '../harness/processes/running_bus.ts';
import { sleep } from '../src/clock.ts';
import type { Manner, Outcome } from './attack.ts';
import { GoodClient } from './good_client.ts';
import type { Options } from './options.ts';
import type { AttackPlan, MaliceCalls } from './processes/malice.ts';

/** Number of malicious and of decent turns, in a long and in a short run. Both kinds alternate. */
const TURNS = { long: 20, short: 3 };
/** Minimum requests of a run in which memory and latency are judged. During a shorter one, the process warms up. */
const ENOUGH_TO_JUDGE = 100_000;
const SENDERS = 2;
/** Number of good requests in a decent turn. */
const DECENT = 3000;
/** Time for which a turn waits before it measures, so that its start does not show. */
const SETTLING_MS = 500;
/** Maximum ratio of the latency of good clients beside malicious requests to that beside good requests. */
const MAX_RATIO = 2;
/** Smaller differences of latency are noise of the operating system. */
const SLACK_MS = 2;
/** Memory growth that counts as normal variation. */
const SLACK_MIB = 24;

export interface Verdict {
  seed: number;
  sent: number;
  slowClosed: number;
  statuses: Map<number, number>;
  bars: Bar[];
  ok: boolean;
}

/** Latencies of good clients in a turn (ms), and the web process's CPU time for a request (average of all senders). */
interface Turn {
  p50: number;
  p99: number;
  cpuMicros: number;
}

interface Pair {
  decent: Turn;
  malicious: Turn;
  /** The web process's memory after the malicious turn. */
  rssMiB: number;
}

type Plan = Omit<AttackPlan, 'manner'>;

/** Fuzzes a bus of its own. Rejects only if the fuzz itself fails; missed bars are in the verdict. */
export async function fuzz(options: Options, say: (text: string) => void): Promise<Verdict> {
  const ends: (() => unknown)[] = [];
  const owner: Owner = { after: (end) => void ends.unshift(end) };
  const bus = await RunningBus.open();
  try {
    return await new Fuzz(options, bus, owner, say).run();
  } finally {
    for (const end of ends) await end();
    await bus.close().catch((error: Error) => say(error.message));
  }
}

class Fuzz {
  readonly #options: Options;
  readonly #bus: RunningBus;
  readonly #say: (text: string) => void;
  readonly #attackers: Helper<MaliceCalls>;
  readonly #slow: Helper<MaliceCalls>;
  readonly #total: Outcome = { sent: 0, statuses: new Map(), faults: [] };
  #slowClosed = 0;

  constructor(options: Options, bus: RunningBus, owner: Owner, say: (text: string) => void) {
    this.#options = options;
    this.#bus = bus;
    this.#say = say;
    const file = new URL('./processes/malice.ts', import.meta.url);
    this.#attackers = new Helper(owner, file, { last: true });
    this.#slow = new Helper(owner, file, { last: true });
  }

  async run(): Promise<Verdict> {
    const { requests, seed } = this.#options;
    // With a small heap, a leak soon ends the process, and garbage does not pile up.
    const web = await this.#bus.start('web', {
      NODE_OPTIONS: '--max-old-space-size=256',
      // Refusals by rate would be most of the answers.
      ROUTEMASTER_CALL_RATE: '0',
      ROUTEMASTER_STRANGER_RATE: '0',
    });
    const port = Number(new URL(this.#bus.url).port);
    const good = new GoodClient(port, await this.#authorization('good'), [
      web.pid,
      this.#bus.redis.pid,
      process.pid,
    ]);
    const known = { client: await this.#authorization('fuzz'), root: `Basic ${btoa(`${ROOT_KEY}:x`)}` };
    const turns = requests >= ENOUGH_TO_JUDGE ? TURNS.long : TURNS.short;
    const pairs: Pair[] = [];
    for (let turn = 0; turn < turns && this.#total.faults.length === 0; turn++) {
      const share = Math.floor(requests / turns) + (turn < requests % turns ? 1 : 0);
      const plan = { port, known, seed: `${seed}/${turn}`, senders: SENDERS };
      const decent = await this.#decent(good, { ...plan, requests: Math.min(share, DECENT) });
      const malicious = await this.#malice(good, { ...plan, requests: share });
      pairs.push({ decent, malicious, rssMiB: residentMiB(web.pid) });
      this.#say(
        `turn ${turn + 1} of ${turns}: ${this.#total.sent} requests; ${pairText(pairs.at(-1) as Pair)}`,
      );
    }
    const bars = [...(await this.#soundness()), ...this.#judge(pairs)];
    const { sent, statuses } = this.#total;
    return { seed, sent, slowClosed: this.#slowClosed, statuses, bars, ok: bars.every(({ ok }) => ok) };
  }

  async #decent(good: GoodClient, plan: Plan): Promise<Turn> {
    await sleep(SETTLING_MS);
    const { turn, outcome } = await this.#beside(good, { ...plan, manner: 'decent' });
    this.#total.faults.push(...outcome.faults);
    return turn;
  }

  async #malice(good: GoodClient, plan: Plan): Promise<Turn> {
    await this.#slow.call('beSlow', this.#options.slow, plan.port, plan.known, plan.seed);
    await sleep(SETTLING_MS);
    const { turn, outcome } = await this.#beside(good, { ...plan, manner: 'malicious' });
    this.#total.sent += outcome.sent;
    this.#total.faults.push(...outcome.faults);
    for (const [status, count] of outcome.statuses)
      this.#total.statuses.set(status, (this.#total.statuses.get(status) ?? 0) + count);
    this.#slowClosed += await this.#slow.call('stopSlow');
    return turn;
  }

  async #beside(good: GoodClient, plan: AttackPlan): Promise<{ turn: Turn; outcome: Outcome }> {
    const { pid } = this.#bus.process('web');
    const before = cpuMicros(pid);
    const attack = this.#attackers.call('attack', plan);
    const times = Float64Array.from(await good.publishUntil(attack));
    const outcome = await attack;
    const turn = {
      p50: percentile(times, 0.5),
      p99: percentile(times, 0.99),
      cpuMicros: (cpuMicros(pid) - before) / (outcome.sent + times.length),
    };
    return { turn, outcome };
  }

  async #authorization(name: string): Promise<string> {
    const { token, secret } = await this.#bus.client(name);
    return `Basic ${btoa(`${token}:${secret}`)}`;
  }

  async #soundness(): Promise<Bar[]> {
    const sound = await this.#bus.assertSound().then(
      () => undefined,
      (error: Error) => error.message.slice(0, 2000),
    );
    const faults = this.#total.faults;
    return [
      {
        text: 'no crash, no error in the log, and Redis fits together',
        ok: !sound,
        ...(sound && { found: sound }),
      },
      {
        text: 'every request is answered or its connection closed, and no 5xx but 501, and 503 with Retry-After',
        ok: faults.length === 0,
        ...(faults.length > 0 && { found: `\n${faults.join('\n')}` }),
      },
    ];
  }

  #judgeLatency(pairs: readonly Pair[], which: 'p50' | 'p99'): Bar {
    const median = (manner: Manner) => spread(pairs.map((pair) => pair[manner][which])).median;
    const [decent, malicious] = [median('decent'), median('malicious')];
    return {
      text: `the ${which} of good clients is at most ${MAX_RATIO} times that beside good requests, or ${SLACK_MS} ms more`,
      ok: malicious <= Math.max(MAX_RATIO * decent, decent + SLACK_MS),
      found: `${decent.toFixed(2)} → ${malicious.toFixed(2)} ms`,
    };
  }

  #judge(pairs: readonly Pair[]): Bar[] {
    if (this.#total.sent < ENOUGH_TO_JUDGE) return [];
    const [early, late] = quarters(pairs.map(({ rssMiB }) => rssMiB));
    const grown = late - early;
    return [
      ...(['p50', 'p99'] as const).map((which) => this.#judgeLatency(pairs, which)),
      {
        text: 'memory does not grow',
        ok: grown <= 0.1 * early + SLACK_MIB,
        found: `${early.toFixed(0)} MiB in the second quarter of the turns, ${late.toFixed(0)} MiB in the last`,
      },
    ];
  }
}

function pairText({ decent, malicious, rssMiB }: Pair): string {
  const ms = (value: number) => value.toFixed(1);
  const times = `p50 ${ms(decent.p50)} → ${ms(malicious.p50)} ms, p99 ${ms(decent.p99)} → ${ms(malicious.p99)} ms`;
  const cpu = `${decent.cpuMicros.toFixed(0)} → ${malicious.cpuMicros.toFixed(0)} µs of CPU a request`;
  return `good clients ${times}; ${cpu}; ${rssMiB.toFixed(0)} MiB`;
}

/** Returns the minima of the second and the last quarter of the values. Minima leave out uncollected garbage. */
function quarters(values: readonly number[]): [early: number, late: number] {
  const quarter = Math.max(1, Math.floor(values.length / 4));
  return [Math.min(...values.slice(quarter, 2 * quarter)), Math.min(...values.slice(-quarter))];
}
