import type { Meddle } from '../../harness/meddling_proxy.ts';
import type { Random } from '../../harness/random.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { until } from '../../harness/until.ts';
import { clock, sleep } from '../../src/clock.ts';
import { soon } from '../deaths.ts';
import type { Lab, Proxied } from '../lab.ts';
import type { Message } from '../redis_proxy.ts';
import type { Scenario } from '../scenario.ts';

const LEASE_MS = 2000;
/** Time for which a late call is held back. It ends after the caller's lease, when another worker has taken over. */
const LATE_MS = 2 * LEASE_MS;
/**
 * Time for which a reply is held back so that the entries of its partition are set aside, and the time between two such
 * replies.
 */
const HELD_MS = 700;
const HELD_EVERY_MS = 3000;

/**
 * A step of publishing, or of emptying an outbox (a list of events on their way to another partition), at which a
 * process is killed or its message is delayed.
 */
interface Moment {
  name: string;
  process: 'web' | 'worker';
  /** `late`: the message is held up until after the lease, and the process is not killed. */
  what: 'killed' | 'late';
  /** True for the message at which the process is struck. If absent, the process is killed at a random time. */
  fits?: (message: Message) => boolean;
  /** Returns what is done to earlier messages. Without it, the message that `fits` would not come. */
  meanwhile?: () => Meddle<Message>;
}

const is =
  (script: string, at: Message['at']) =>
  (message: Message): boolean =>
    message.at === at && message.call.script === script;

/** Fits a read_outbox of the list `outbox`, or of a list of entries that are set aside for a partition. */
const reads = (at: Message['at'], isAside: boolean) => (message: Message) =>
  is('read_outbox', at)(message) && (message.call.args[0] !== '') === isAside;
/** True for a read_outbox that also removes applied entries. The first read of a list removes none. */
const trims = ({ call: { args } }: Message) => Number(args[1]) > 0;
const hasEvents = (message: Message) => message.at === 'reply' && message.reply.includes('https://');

/** Holds up the reply to an apply_outbox now and then, so that the entries of that partition are set aside. */
function setsAside(): Meddle<Message> {
  let heldAtMs = Number.NEGATIVE_INFINITY;
  return (message) => {
    if (!is('apply_outbox', 'reply')(message)) return undefined;
    if (clock.monotonicMs() - heldAtMs < HELD_EVERY_MS) return undefined;
    heldAtMs = clock.monotonicMs();
    return { first: () => sleep(HELD_MS) };
  };
}

/** The calls that read and remove entries: of the list `outbox`, or of those that are set aside. */
const atReads = (isAside: boolean, of: string): Pick<Required<Moment>, 'name' | 'fits'>[] => {
  const [asks, answers] = [reads('request', isAside), reads('reply', isAside)];
  return [
    { name: `before read${of}`, fits: (message) => asks(message) && !trims(message) },
    { name: `after read${of}`, fits: (message) => answers(message) && hasEvents(message) },
    { name: `before trim${of}`, fits: (message) => asks(message) && trims(message) },
    { name: `after trim${of}`, fits: (message) => answers(message) && trims(message) },
  ];
};

const AT_OUTBOX: readonly Pick<Moment, 'name' | 'fits' | 'meanwhile'>[] = [
  ...atReads(true, ' aside').map((step) => ({ ...step, meanwhile: setsAside })),
  ...atReads(false, ''),
  { name: 'before apply', fits: is('apply_outbox', 'request') },
  { name: 'after apply', fits: is('apply_outbox', 'reply') },
];

const WORKER_MOMENTS: readonly Moment[] = [
  ...AT_OUTBOX.flatMap((step): Moment[] => [
    { ...step, process: 'worker', what: 'killed' },
    { ...step, process: 'worker', what: 'late' },
  ]),
  { name: 'at any time', process: 'worker', what: 'killed' },
];

const WEB_MOMENTS: readonly Moment[] = [
  { name: 'before publish', process: 'web', what: 'killed', fits: is('publish', 'request') },
  { name: 'after publish', process: 'web', what: 'killed', fits: is('publish', 'reply') },
  { name: 'at any time', process: 'web', what: 'killed' },
];

/** Events go from each of four partitions to subscribers in all of them, while workers and webs are killed. */
export const outboxKill: Scenario = {
  name: 'outbox-kill',
  title: 'workers and webs get SIGKILL, or are late, at each step of the outboxes between four partitions',
  events: { full: 30_000, quick: 200 },
  bus: {
    env: { ROUTEMASTER_PARTITIONS: '4', ROUTEMASTER_WORKER_LEASE: String(LEASE_MS / 1000) },
  },
  async run(lab) {
    const webs = [await lab.startProxied('web')];
    const workers = [await lab.startProxied('worker')];
    if (!lab.quick) {
      webs.push(await lab.startProxied('web'));
      workers.push(await lab.startProxied('worker'));
    }
    const { partitions } = lab.bus;
    const topics = partitions.all.map(({ index }) => nameIn(partitions, index, 'widgets'));
    for (const partition of partitions.all.keys())
      for (const ordered of [true, false]) {
        const name = `${ordered ? 'ordered' : 'plain'}${partition}`;
        await lab.subscribe(name, { topic: topics, partition, ordered, timeout: 20, max: 20 });
      }
    // Each topic has one publisher, which waits for each answer. So the order of its events is known.
    const perSecond = lab.quick ? 25 : 75;
    const publishings = topics.map((topic) => lab.publish({ topic, perPost: 3, perSecond, again: true }));
    const counts = new Map<string, number>();
    const isOver = () => publishings.every(({ accepted }) => accepted >= lab.events / topics.length);
    const strikes: Strikes[] = workers.map((each) => ({
      struck: [each],
      moments: WORKER_MOMENTS,
      counts,
      isOver,
    }));
    // Webs are killed only if there are two, so that one is always up.
    if (!lab.quick) strikes.push({ struck: webs, moments: WEB_MOMENTS, counts, isOver });
    await Promise.all(strikes.map((each, index) => strikeAll(lab, each, lab.random.fork(`${index}`))));
    await until(isOver, { what: 'all are published' });
    await Promise.all(publishings.map((each) => each.stop()));
    await lab.settle();
    lab.say([...counts].map(([what, count]) => `${count} × ${what}`).join(', '));
    lab.noneOutOfOrder();
    const { duplicated, storedTwice } = lab.ledger.totals();
    // Other duplicates are permitted: they came by several attempts at one batch, with the same webhook-id.
    lab.bar('stored twice 0', storedTwice === 0, `${storedTwice} of ${duplicated} duplicates`);
  },
};

interface Strikes {
  /** The processes that are struck, one at a time. A process that dies is replaced. */
  struck: Proxied[];
  moments: readonly Moment[];
  counts: Map<string, number>;
  isOver: () => boolean;
}

/** Strikes at all moments in random order, again and again until `isOver`. A quick run strikes once. */
async function strikeAll(
  lab: Lab,
  { struck, moments, counts, isOver }: Strikes,
  random: Random,
): Promise<void> {
  let plan: Moment[] = [];
  for (let strikes = 0; lab.quick ? strikes < 1 : !isOver(); strikes++) {
    if (plan.length === 0) plan = random.shuffled(moments);
    const moment = plan.pop() as Moment;
    const index = random.whole(0, struck.length - 1);
    await strike(struck[index] as Proxied, moment, random.between(0, 300));
    const what = `${moment.process} ${moment.what} ${moment.name}`;
    counts.set(what, (counts.get(what) ?? 0) + 1);
    lab.say(what);
    if (moment.what === 'killed') struck[index] = await lab.startProxied(moment.process);
  }
}

async function strike(
  { process, proxy }: Proxied,
  { fits, meanwhile, what }: Moment,
  afterMs: number,
): Promise<void> {
  await sleep(afterMs);
  if (!fits) return process.kill();
  const meddling =
    what === 'killed'
      ? { first: () => process.kill(), end: 'cut' as const }
      : { first: () => sleep(LATE_MS) };
  return soon(proxy.strike(fits, meddling, meanwhile?.()));
}
