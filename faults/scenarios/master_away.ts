import { percentile } from '../../harness/measuring/statistics.ts';
import { tagOf } from '../../harness/redis/private_cluster.ts';
import type { PrivateRedis } from '../../harness/redis/private_redis.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import type { Audience, Lab } from '../lab.ts';
import type { Publishing } from '../publishing.ts';
import type { Scenario } from '../scenario.ts';

/**
 * Maximum ratio between the p99 of others while the master is away and their p99 in quiet. If the p99 grows by no more
 * than the tolerance, the ratio is not judged.
 */
const SLOWER_BAR = 2;
const TOLERANCE_MS = 20;

/**
 * The topics of a subscriber, by the distance of their partitions from its own: the topic of its own partition (0), of
 * the next one (1), and of the third after it (3).
 */
const DISTANCES = [0, 1, 3];

/** A partition: its topic, the publishing to this topic, and a subscriber in the partition. */
interface Place {
  /** True if the master of the partition will be away. */
  isAway: boolean;
  topic: string;
  /** The topics of the subscriber: one of each partition at a distance in DISTANCES. */
  listensTo: string[];
  publishing: Publishing;
  audience: Audience;
}

/** p99 of answers to publishes, and of deliveries, in ms. Only topics and subscribers elsewhere count. */
interface Times {
  publishMs: number;
  deliverMs: number;
}

/** A master is away, first hanging and then dead, and none of its replicas takes over. */
export const masterAway: Scenario = {
  name: 'master-away',
  title:
    'a master of a cluster hangs for a minute, then is dead for a minute, and no replica takes over (8 partitions)',
  events: { full: 10_000, quick: 300 },
  bus: {
    cluster: true,
    redis: { 'cluster-replica-no-failover': 'yes', appendonly: 'yes', appendfsync: 'always' },
    env: { ROUTEMASTER_PARTITIONS: '8', ROUTEMASTER_WORKER_LEASE: '3' },
  },
  async run(lab) {
    const processes = [await lab.start('web'), await lab.start('web'), await lab.start('worker')];
    const { cluster, partitions } = lab.bus;
    // The first partition is `control`, which has the clients. The last is on another master.
    const master = await cluster.masterOf(tagOf(partitions.all.at(-1) ?? partitions.control));
    const places = await settleIn(lab, master);
    const elsewhere = places.filter(({ isAway }) => !isAway);
    lab.say(`${places.length - elsewhere.length} of ${places.length} partitions will be away`);
    const awayMs = lab.quick ? 6000 : 60_000;
    // Processes are slower in their first seconds.
    await sleep(awayMs / 6);
    const quiet = await during(elsewhere, () => sleep(awayMs / 3));
    lab.say(`in quiet: ${inWords(quiet)}`);
    for (const fault of FAULTS) {
      const refused = elsewhere.reduce((sum, { publishing }) => sum + publishing.refused, 0);
      await fault.begin(master);
      const times = await during(elsewhere, () => sleep(awayMs));
      const now = elsewhere.reduce((sum, { publishing }) => sum + publishing.refused, 0);
      await fault.end(master);
      const backMs = performance.now();
      await allArrive(lab, places);
      lab.recovered(performance.now() - backMs);
      lab.say(
        `${fault.name}: ${inWords(times)}; all works ${Math.round(performance.now() - backMs)} ms after it is back`,
      );
      lab.bar(`${fault.name}: all is accepted elsewhere`, now === refused, `${now - refused} refused`);
      // Times are judged only on an otherwise idle machine.
      const isAsQuick = (which: keyof Times) =>
        times[which] <= Math.max(quiet[which] * SLOWER_BAR, quiet[which] + TOLERANCE_MS);
      const met = lab.quick || (isAsQuick('publishMs') && isAsQuick('deliverMs'));
      lab.bar(`${fault.name}: others do not notice`, met, `${inWords(times)}; in quiet ${inWords(quiet)}`);
    }
    await until(() => lab.ledger.accepted >= lab.events, { timeoutMs: 60_000, what: 'all are published' });
    await Promise.all(places.map(({ publishing }) => publishing.stop()));
    await lab.settle();
    lab.noneExited(processes);
    lab.noneOutOfOrder();
    lab.noneStoredTwice();
  },
};

const FAULTS = [
  {
    name: 'hanging',
    begin: (master: PrivateRedis) => master.kill('SIGSTOP'),
    end: (master: PrivateRedis) => master.kill('SIGCONT'),
  },
  {
    name: 'dead',
    begin: (master: PrivateRedis) => master.kill('SIGKILL'),
    end: (master: PrivateRedis) => master.restart(),
  },
];

/**
 * Makes one subscriber in each partition, subscribed to the topics at the DISTANCES. Then begins to publish to the
 * topics of all partitions.
 */
async function settleIn(lab: Lab, master: PrivateRedis): Promise<Place[]> {
  const { cluster, partitions } = lab.bus;
  const topics = partitions.all.map(({ index }) => nameIn(partitions, index, 'widgets'));
  const places: Place[] = [];
  for (const each of partitions.all) {
    const { index: partition } = each;
    const ordered = partition % 2 === 0;
    const topic = DISTANCES.map((distance) => topics[(partition + distance) % topics.length] ?? '');
    const audience = await lab.subscribe(`s${partition}`, { topic, partition, ordered, timeout: 0, max: 20 });
    const isAway = (await cluster.masterOf(tagOf(each))) === master;
    places.push({ isAway, topic: topics[partition], listensTo: topic, audience } as Place);
  }
  const perSecond = lab.quick ? 5 : 10;
  for (const place of places) place.publishing = lab.publish({ topic: place.topic, perSecond, again: true });
  return places;
}

/** Measures topics whose home is elsewhere, and their deliveries to subscribers elsewhere, while `act` is under way. */
async function during(elsewhere: readonly Place[], act: () => Promise<unknown>): Promise<Times> {
  const beganMs = performance.now();
  await act();
  const endMs = performance.now();
  const isWithin = (atMs: number) => atMs >= beganMs && atMs < endMs;
  const answers = elsewhere.flatMap(({ publishing }) => publishing.answers);
  const published = answers.filter(({ atMs }) => isWithin(atMs)).map(({ tookMs }) => tookMs);
  const topics = new Set(elsewhere.map(({ topic }) => topic));
  const delivered = elsewhere.flatMap(({ audience: { receiver } }) =>
    receiver.deliveries
      .filter(({ atMs }) => isWithin(atMs))
      .flatMap(({ atMs, events }) =>
        events.filter(({ topic }) => topics.has(topic)).map(({ t }) => performance.timeOrigin + atMs - t),
      ),
  );
  const p99 = (times: number[]) => percentile(Float64Array.from(times), 0.99);
  return { publishMs: p99(published), deliverMs: p99(delivered) };
}

const inWords = ({ publishMs, deliverMs }: Times) =>
  `p99 ${Math.round(publishMs)} ms to publish, ${Math.round(deliverMs)} ms to deliver`;

/** Resolves when everything that is accepted now has arrived everywhere, and every topic accepts more. */
async function allArrive(lab: Lab, places: readonly Place[]): Promise<void> {
  const before = places.map(({ publishing }) => publishing.accepted);
  const accepted = places.map(({ listensTo }) => listensTo.flatMap((each) => lab.ledger.acceptedBy(each)));
  const arrived = () =>
    places.every(({ publishing, audience: { receiver } }, index) => {
      if (publishing.accepted === before[index]) return false;
      return receiver.missing(accepted[index] ?? []).length === 0;
    });
  await until(arrived, {
    timeoutMs: 60_000,
    everyMs: 100,
    what: 'everything arrives when the master is back',
  });
}
