import { BusAnswerError } from '../../harness/http/bus_client.ts';
import { ROOT_KEY } from '../../harness/processes/bus_environment.ts';
import { tagOf } from '../../harness/redis/private_cluster.ts';
import { nameIn } from '../../harness/scripts/crossing.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import type { Audience, Lab } from '../lab.ts';
import type { Publishing } from '../publishing.ts';
import type { Scenario } from '../scenario.ts';
import { masterAway } from './master_away.ts';

/** Maximum time from when a delayed event is due until it is delivered elsewhere. */
const LATE_MS = 5000;

/** A topic in each partition, with a subscriber in the next one. */
interface Place {
  /** True if neither the topic nor its subscriber is on the master that will be away. */
  isElsewhere: boolean;
  topic: string;
  audience: Audience;
}

/** The master of the control partition, which has all clients, is away, and none of its replicas takes over. */
export const controlAway: Scenario = {
  name: 'control-away',
  title:
    'the master that has the clients is dead for a minute, and no replica takes over (8 partitions on a cluster)',
  events: { full: 4000, quick: 240 },
  ...(masterAway.bus && { bus: masterAway.bus }),
  async run(lab) {
    const processes = [await lab.start('web'), await lab.start('web'), await lab.start('worker')];
    const master = await lab.bus.cluster.masterOf(tagOf(lab.bus.partitions.control));
    const places = await settleIn(lab);
    const awayMs = lab.quick ? 6000 : 60_000;
    // A quarter of the events falls due while the master is away. These events are published before that, because a
    // publish needs the client, which the control partition has.
    const delayed = places.map(({ topic }) => {
      const events = Math.ceil(lab.events / 4 / places.length);
      const delayMs = () => lab.random.whole(awayMs / 4, awayMs);
      return lab.publish({ topic, events, again: true, delayMs });
    });
    await Promise.all(delayed.map(({ done }) => done));
    const perSecond = lab.quick ? 5 : 10;
    const publishings = places.map(({ topic }) => lab.publish({ topic, perSecond, again: true }));
    await sleep(awayMs / 10);

    await master.kill('SIGKILL');
    const killedMs = performance.now();
    await until(() => publishings.every(({ refused }) => refused > 0), { what: 'publishes are refused' });
    lab.say(`all clients are refused ${Math.round(performance.now() - killedMs)} ms after the kill`);
    await judgeFigures(lab);
    await sleep(awayMs - (performance.now() - killedMs));
    judgeDeliveries(lab, places, killedMs);
    await master.restart();
    const backMs = performance.now();
    await goesOn(publishings);
    const accepts = Math.round(performance.now() - backMs);
    await until(() => lab.ledger.accepted >= lab.events, { timeoutMs: 120_000, what: 'all are published' });
    await Promise.all(publishings.map((publishing) => publishing.stop()));
    await lab.settle();
    lab.recovered(accepts);
    lab.say(`publishes ${accepts} ms after the master is back`);
    lab.noneExited(processes);
    lab.noneStoredTwice();
  },
};

async function settleIn(lab: Lab): Promise<Place[]> {
  const { cluster, partitions } = lab.bus;
  const { all } = partitions;
  const masters = await Promise.all(all.map((each) => cluster.masterOf(tagOf(each))));
  const places: Place[] = [];
  for (const { index } of all) {
    const next = (index + 1) % all.length;
    const topic = nameIn(partitions, index, 'widgets');
    // Delayed events come when they are due, and not in the order in which they were accepted.
    const wanted = { topic, partition: next, timeout: 0, max: 20 };
    const audience = await lab.subscribe(`s${index}`, wanted);
    const isElsewhere = masters[index] !== masters[0] && masters[next] !== masters[0];
    places.push({ isElsewhere, topic, audience });
  }
  return places;
}

/** Judges that the metrics say which partition is away, and that listings are refused. */
async function judgeFigures(lab: Lab): Promise<void> {
  const headers = { authorization: `Basic ${btoa(`${ROOT_KEY}:x`)}` };
  const metrics = await fetch(`${lab.bus.url}/metrics`, { headers });
  const shows = /^routemaster_partition_up{partition="0"} 0$/m.test(await metrics.text());
  lab.bar('/metrics says that partition 0 is away', shows, `${metrics.status}`);
  const refusal = await lab.bus.root.call('GET', '/topics').catch((error: unknown) => error);
  const isRefused = refusal instanceof BusAnswerError && refusal.status === 503;
  lab.bar('lists are refused with 503', isRefused, String(refusal).slice(0, 80));
}

/** Delayed events that were due were delivered in time where the master is not needed. */
function judgeDeliveries(lab: Lab, places: readonly Place[], killedMs: number): void {
  let delivered = 0;
  let lateMs = 0;
  for (const { isElsewhere, audience } of places) {
    if (!isElsewhere) continue;
    for (const { atMs, events } of audience.receiver.deliveries)
      for (const { t } of events) {
        if (atMs < killedMs) continue;
        delivered++;
        lateMs = Math.max(lateMs, performance.timeOrigin + atMs - t);
      }
  }
  lab.bar('delayed events elsewhere are delivered meanwhile', delivered > 0, `${delivered}`);
  lab.bar(`delivered within ${LATE_MS} ms`, lateMs <= LATE_MS, `${Math.round(lateMs)} ms`);
}

/** Resolves when each of these has accepted more. */
async function goesOn(publishings: readonly Publishing[]): Promise<void> {
  const before = publishings.map(({ accepted }) => accepted);
  const accepts = () => publishings.every(({ accepted }, index) => accepted > (before[index] ?? 0));
  await until(accepts, { timeoutMs: 60_000, everyMs: 20, what: 'all topics are published to again' });
}
