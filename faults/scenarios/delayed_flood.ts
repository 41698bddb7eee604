import { residentMiB } from '../../harness/measuring/cpu.ts';
import { Helper } from '../../harness/measuring/helper.ts';
import type { Timing } from '../../harness/measuring/timed_audience.ts';
import { DEFAULT_LIMITS } from '../../harness/processes/bus_environment.ts';
import { readMemory } from '../../src/store/memory.ts';
import { GoodClients, PER_SECOND } from '../good_clients.ts';
import type { Lab } from '../lab.ts';
import type { DelayingCalls } from '../processes/delaying_client.ts';
import type { Scenario } from '../scenario.ts';

const GOOD = 20;
const REDIS_BYTES = 128 * 1024 * 1024;
/** The default limits of a client's delayed events in a partition: 5 % of the memory, and 100,000 events. */
const MAX_BYTES = Math.floor(0.05 * REDIS_BYTES);
const MAX_EVENTS = 100_000;
/** Factor by which Redis may grow beyond that limit: an event's size is an estimate, and other data grows too. */
const SLACK = 1.2;
const MAX_WEB_GROWTH_MIB = 200;
const OFFERED = { full: 1_000_000, quick: 30_000 };
const TOPICS = ['evil_a', 'evil_b'];
/** The p99 of good clients may be twice that in quiet, or 20 ms longer. A quick run is too short to judge times. */
const MAX_RATIO = 2;
const SLACK_MS = 20;

/** A client offers a million events for tomorrow, as fast as it can, to a bus with its default limits. */
export const delayedFlood: Scenario = {
  name: 'delayed-flood',
  title: `a client delays a million events, beside ${GOOD} good ones`,
  events: { full: 10 * PER_SECOND, quick: 2 * PER_SECOND },
  bus: { env: DEFAULT_LIMITS, redis: { maxmemory: String(REDIS_BYTES) } },
  async run(lab) {
    const web = await lab.start('web');
    await lab.start('worker');
    const seconds = lab.events / PER_SECOND;
    const good = await GoodClients.open(lab, GOOD);
    await good.measure('warm-up', seconds);
    const quiet = await good.measure('quiet', seconds);
    const [before, webBefore] = [await memoryUsed(lab), residentMiB(web.pid)];

    const hostile = await lab.bus.client('hostile');
    const { token, secret } = hostile;
    const client = new Helper<DelayingCalls>(
      lab,
      new URL('../processes/delaying_client.ts', import.meta.url),
      { last: true },
    );
    const count = homesOf(lab).length * OFFERED[lab.quick ? 'quick' : 'full'];
    let isOver = false;
    const offering = client.call('offer', lab.bus.url, { token, secret }, TOPICS, count).finally(() => {
      isOver = true;
    });
    const beside: Timing[] = [];
    while (!isOver) beside.push(await good.measure(`beside ${beside.length}`, seconds));
    const { accepted, refused, answers } = await offering;
    lab.say(`of ${count} events ${accepted} wait; refused: ${JSON.stringify([...refused])}`);

    const isClear = answers.every((each) => /→ 409 .*"limit_reached".*ROUTEMASTER_\w*DELAYED/s.test(each));
    lab.bar('it is refused with what to change', refused.size > 0 && isClear, answers.join('\n'));
    await judgeMemory(lab, token, accepted, before);
    const growth = residentMiB(web.pid) - webBefore;
    lab.bar(`web grows by ≤ ${MAX_WEB_GROWTH_MIB} MiB`, growth <= MAX_WEB_GROWTH_MIB, `${growth.toFixed(0)}`);
    judgeGood(lab, quiet, beside, await good.dropped());
    for (const topic of TOPICS) await hostile.call('DELETE', `/topics/${topic}`);
  },
};

const memoryUsed = async ({ bus }: Lab) =>
  (await readMemory(bus.store, { redisMaxBytes: 0, redisMinFreeBytes: 0 })).used;

/** Returns the partitions of the topics. A client has its limits in each of them. */
const homesOf = ({ bus }: Lab) => [...new Set(TOPICS.map((topic) => bus.partitions.ofTopic(topic)))];

/**
 * Judges that all accepted events wait, that they take no more than a client may, and that Redis grew by little more.
 */
async function judgeMemory(lab: Lab, token: string, accepted: number, before: number): Promise<void> {
  const homes = homesOf(lab);
  const held = await Promise.all(
    homes.map(({ redis, keys }) => redis.hmget(keys.delayed_held(token), ':events', ':bytes')),
  );
  const sum = (field: number) => held.reduce((total, values) => total + Number(values[field]), 0);
  const [events, bytes] = [sum(0), sum(1)];
  const [maxEvents, maxBytes] = [homes.length * MAX_EVENTS, homes.length * MAX_BYTES];
  lab.bar(`all that was accepted waits: ≤ ${maxEvents} events`, events === accepted && accepted <= maxEvents);
  lab.bar(`they take ≤ ${maxBytes} bytes`, bytes <= maxBytes, `${bytes}`);
  const grown = (await memoryUsed(lab)) - before;
  const max = Math.round(SLACK * maxBytes);
  lab.bar(`Redis grows by ≤ ${max} bytes`, grown <= max, `${grown}`);
}

function judgeGood(lab: Lab, quiet: Timing, beside: readonly Timing[], dropped: number): void {
  const refused = beside.flatMap((each) => each.refused);
  lab.bar(
    'all events of the good ones are accepted',
    refused.length === 0,
    `${refused.length}: ${refused[0]}`,
  );
  const missing = beside.reduce((sum, each) => sum + each.missing, 0);
  lab.bar('all of them are received, and none is dropped', missing + dropped === 0, `${missing}, ${dropped}`);
  for (const time of lab.quick ? [] : (['publish', 'delivery'] as const)) {
    const was = quiet[time].p99Ms;
    const is = beside.map((each) => each[time].p99Ms).toSorted((a, b) => a - b)[beside.length >> 1] ?? 0;
    const text = `median p99 of ${time} beside it (${is.toFixed(1)} ms) ≤ ${MAX_RATIO} × or + ${SLACK_MS} ms in quiet (${was.toFixed(1)} ms)`;
    lab.bar(text, is <= Math.max(MAX_RATIO * was, was + SLACK_MS), `ratio ${(is / was).toFixed(2)}`);
  }
}
