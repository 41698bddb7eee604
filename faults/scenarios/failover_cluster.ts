import { until } from '../../harness/until.ts';
import { acceptedBy, allAccept, allDeliver, CLUSTER_BUS, publishEverywhere } from '../cluster_scene.ts';
import type { Scenario } from '../scenario.ts';

/**
 * Maximum time until every topic is published to, from when the new master has a replica again: without one it takes no
 * publication. Quick runs, on busy machines, do not judge it.
 */
const GOES_ON_BAR_MS = 2000;
/** Maximum time for which a master is without its replica before it dies. The replica lacks what it stores in that time. */
const MAX_ALONE_MS = 300;

/** Masters of a cluster lose their replicas and are killed, one after the other, under a bus of eight partitions. */
export const failoverCluster: Scenario = {
  name: 'failover-cluster',
  title:
    'a master of a cluster loses its replica, then gets SIGKILL; the replica is promoted, and the killed node comes back (8 partitions, ROUTEMASTER_MIN_REPLICAS=1)',
  events: { full: 10_000, quick: 300 },
  bus: CLUSTER_BUS,
  async run(lab) {
    const lanes = await publishEverywhere(lab, 400);
    const { cluster } = lab.bus;
    const processes = [lab.bus.process('web'), lab.bus.process('worker')];
    const random = lab.random.fork('kills');
    const kills = lab.quick ? 1 : 10;
    let acceptsMs = 0;
    for (let kill = 1; kill <= kills; kill++) {
      await until(() => acceptedBy(lanes) >= (lab.events / (kills + 1)) * kill, { timeoutMs: 60_000 });
      const { tag } = lanes[random.whole(0, lanes.length - 1)] ?? { tag: '' };
      const killed = await cluster.crash(tag, random.between(0, MAX_ALONE_MS));
      const killedMs = performance.now();
      await cluster.failsOver(tag, killed);
      const promotedMs = performance.now();
      // As a supervisor would. Publishing waits for a replica of the new master, which has no other.
      await killed.restart();
      await cluster.isFollowed(tag);
      const followedMs = performance.now();
      const delivering = allDeliver(lanes).then(() => performance.now());
      await allAccept(lanes);
      const acceptedMs = performance.now();
      acceptsMs = Math.max(acceptsMs, acceptedMs - followedMs);
      const deliveredMs = await delivering;
      lab.recovered(deliveredMs - promotedMs);
      const took = [promotedMs - killedMs, followedMs - promotedMs, acceptedMs - followedMs];
      const [promoted, followed, accepts, delivers] = [...took, deliveredMs - followedMs].map(Math.round);
      const what = `promoted after ${promoted} ms, followed after ${followed}, publishes after ${accepts}, delivers after ${delivers}`;
      lab.say(`${what} (${kill} of ${kills})`);
      await cluster.isWhole();
    }
    await until(() => acceptedBy(lanes) >= lab.events, { timeoutMs: 60_000, what: 'all are published' });
    for (const { publishing } of lanes) await publishing.stop();
    await lab.settle();
    const ended = processes.filter(({ runs }) => !runs).map(({ name }) => name);
    lab.bar('no process exits', ended.length === 0, ended.join());
    const goesOn = lab.quick || acceptsMs <= GOES_ON_BAR_MS;
    lab.bar('publishes ≤ 2 s after the new master has a replica', goesOn, `${Math.round(acceptsMs)} ms`);
    lab.say(`stored twice: ${lab.ledger.totals().storedTwice}`);
  },
};
