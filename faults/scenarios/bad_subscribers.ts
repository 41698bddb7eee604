import type { Client } from '../../harness/http/client.ts';
import { Helper } from '../../harness/measuring/helper.ts';
import { spread } from '../../harness/measuring/statistics.ts';
import type { TimedCalls, Timing } from '../../harness/measuring/timed_audience.ts';
import { DEFAULT_LIMITS } from '../../harness/processes/bus_environment.ts';
import type { Random } from '../../harness/random.ts';
import { until } from '../../harness/until.ts';
import type { Lab } from '../lab.ts';
import type { BadCalls } from '../processes/bad_callbacks.ts';
import type { Scenario } from '../scenario.ts';

const TOPIC = 'widgets';
/**
 * A second topic, which gets events in every round. If the 500 bad subscribers subscribe to it, that makes 5,000 copies
 * a second.
 */
const ANOTHER = { topic: 'gadgets', perSecond: 10 };
const GOOD = 20;
const PER_SECOND = 30;
const ROUNDS = { full: 3, quick: 1 };
/** Maximum ratio between the p99 of the good subscribers beside bad ones and their p99 beside nobody. */
const BARS = { apart: 1.2, together: 2 };
/** In quick runs, on machines busy with other tests, that p99 may grow by this much. Starvation would take seconds. */
const NOISE_MS = 500;
const ITEMS_AT_A_TIME = 16;
/**
 * Time at the start of each round that does not count, so that the cost of subscribing five hundred subscribers does
 * not count either.
 */
const SETTLING_SECONDS = { full: 4, quick: 1 };

/**
 * Who is subscribed beside the good subscribers. Each round measures all kinds one after the other, so that other load
 * on the machine affects them alike.
 */
const KINDS = {
  none: 'nobody',
  /** The bad subscribers get none of the good ones' events, so only their failures can slow the good ones down. */
  apart: 'the bad with another topic',
  /** Each event has 520 copies, whose cost in Redis hurts everybody. */
  together: 'the bad with the same topic',
};
type Kind = keyof typeof KINDS;
const ALL = Object.keys(KINDS) as Kind[];

/**
 * One process that does nothing else measures all rounds. Another process serves the bad callbacks. It has the lowest
 * priority, because bad subscribers would have machines of their own. The bus runs with its default limits: 64
 * workers, of which a hanging subscriber holds one for 20 s.
 */
export const badSubscribers: Scenario = {
  name: 'bad-subscribers',
  title: '500 subscribers (quick: 80) that hang, drip, reset or answer 500, beside 20 good ones',
  events: { full: 3 * ROUNDS.full * 900, quick: 3 * ROUNDS.quick * 60 },
  bus: { env: DEFAULT_LIMITS },
  async run(lab) {
    const processes = [await lab.start('web'), await lab.start('worker')];
    const good = new Helper<TimedCalls>(
      lab,
      new URL('../../harness/measuring/timed_audience.ts', import.meta.url),
    );
    const bad = new Helper<BadCalls>(lab, new URL('../processes/bad_callbacks.ts', import.meta.url), {
      last: true,
    });
    const others = await clients(lab, 'bad', await bad.call('listen', lab.quick ? 80 : 500));
    await subscribe(
      await clients(lab, 'good', await good.call('listen', new Array<string>(GOOD).fill(TOPIC))),
      () => ({
        topics: [TOPIC],
        timeout: 0,
      }),
    );
    const { token, secret } = await lab.bus.client('publisher');
    const timings: Record<Kind, Timing[]> = { none: [], apart: [], together: [] };
    const measure = async (name: string, events: number) => {
      const publishers = [{ credentials: { token, secret }, topic: TOPIC }];
      const pace = { url: lab.bus.url, publishers, beside: ANOTHER, perSecond: PER_SECOND };
      const timing = await good.call('measure', { ...pace, name, events });
      if (timing.refused.length > 0) throw new Error(`a publish was refused: ${timing.refused[0]}`);
      lab.ledger.accept(TOPIC, timing.accepted);
      return timing;
    };
    await measure('warm-up', (lab.quick ? 1 : 4) * PER_SECOND);
    const size = lab.quick ? 'quick' : 'full';
    const rounds = ROUNDS[size];
    for (let round = 1; round <= rounds; round++) {
      for (const kind of ALL) {
        if (kind !== 'none') await subscribe(others, () => wanted(kind, lab.random));
        await measure(`${kind}/${round}/at-first`, SETTLING_SECONDS[size] * PER_SECOND);
        timings[kind].push(await measure(`${kind}/${round}`, Math.ceil(lab.events / (ALL.length * rounds))));
        if (kind !== 'none') await unsubscribe(lab, others, bad);
      }
      const found = ALL.map((kind) => `${KINDS[kind]} ${describe(timings[kind].at(-1))}`);
      lab.say(`round ${round}, p50/p99/max beside ${found.join(', ')}`);
    }
    const requests = [...(await bad.call('requests'))].map(([kind, count]) => `${count} × ${kind}`);
    lab.say(`the bad ones had ${requests.join(', ')}`);
    judge(lab, timings);
    lab.noneExited(processes);
  },
};

interface Callback {
  client: Client;
  callback: string;
}

/** Random batch sizes: with equal ones, a single publication would close and open five hundred batches. */
function wanted(kind: Kind, random: Random) {
  return { topics: [kind === 'apart' ? ANOTHER.topic : TOPIC], timeout: 0, max: random.whole(50, 150) };
}

function judge(lab: Lab, timings: Record<Kind, Timing[]>): void {
  const missing = Object.values(timings)
    .flat()
    .reduce((sum, timing) => sum + timing.missing, 0);
  lab.bar('every good one gets every event', missing === 0, `${missing} were not received`);
  const p99 = (kind: Kind) => spread(timings[kind].map(({ delivery }) => delivery.p99Ms)).median;
  const floorMs = p99('none');
  for (const [kind, ratio] of Object.entries(BARS) as [Exclude<Kind, 'none'>, number][]) {
    const [limitMs, limit] = lab.quick
      ? [floorMs + NOISE_MS, `${NOISE_MS} ms more than`]
      : [floorMs * ratio, `${ratio} ×`];
    const text = `p99 of the good ones beside ${KINDS[kind]} (${p99(kind).toFixed(1)} ms) ≤ ${limit} beside nobody (${floorMs.toFixed(1)} ms)`;
    lab.bar(text, p99(kind) <= limitMs, `ratio ${(p99(kind) / floorMs).toFixed(2)}`);
  }
}

function describe(timing: Timing | undefined): string {
  const { p50Ms = 0, p99Ms = 0, maxMs = 0 } = timing?.delivery ?? {};
  return `${p50Ms.toFixed(1)}/${p99Ms.toFixed(1)}/${maxMs.toFixed(1)} ms`;
}

async function clients(lab: Lab, name: string, callbacks: string[]): Promise<Callback[]> {
  return inTurns(callbacks, async (callback) => ({ client: await lab.bus.client(name), callback }));
}

async function subscribe(
  subscribers: Callback[],
  wanted: () => { topics: string[]; timeout: number; max?: number },
): Promise<void> {
  await inTurns(subscribers, ({ client, callback }) =>
    client.call('POST', '/subscription', { callback, uuid: 'lab', ...wanted() }),
  );
}

/** Unsubscribes the bad subscribers, and waits until their queues are gone. */
async function unsubscribe(lab: Lab, subscribers: Callback[], bad: Helper<BadCalls>): Promise<void> {
  await inTurns(subscribers, ({ client }) => client.call('DELETE', '/subscriber'));
  const queued = () => lab.bus.partitions.all.map(({ redis, keys }) => redis.zcard(keys.batches_index()));
  const gone = async () => {
    await bad.call('hangUp');
    return (await Promise.all(queued())).every((batches) => batches === 0);
  };
  await until(gone, { timeoutMs: 60_000, everyMs: 50, what: 'their batches are gone' });
}

/** Calls `each` for all items, a few at a time. */
async function inTurns<T, R>(items: T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let from = 0; from < items.length; from += ITEMS_AT_A_TIME)
    results.push(...(await Promise.all(items.slice(from, from + ITEMS_AT_A_TIME).map(each))));
  return results;
}
