import { allAccept, allDeliver, CLUSTER_BUS, disturbCluster } from '../cluster_scene.ts';
import type { Scenario } from '../scenario.ts';

/**
 * Maximum time until every topic accepts events again, counted from when the new master has a replica: without a
 * replica it accepts none. Quick runs, on busy machines, do not judge it.
 */
const GOES_ON_BAR_MS = 2000;
/**
 * Maximum time for which a master is without its replica before it dies. The replica lacks what it stores in that time.
 */
const MAX_ALONE_MS = 300;

/** Masters of a cluster lose their replicas and are killed, one after the other, under a bus of eight partitions. */
export const failoverCluster: Scenario = {
  name: 'failover-cluster',
  title:
    'a master of a cluster loses its replica, then gets SIGKILL; the replica is promoted, and the killed node comes back (8 partitions, ROUTEMASTER_MIN_REPLICAS=1)',
  events: { full: 10_000, quick: 300 },
  bus: CLUSTER_BUS,
  async run(lab) {
    const { cluster } = lab.bus;
    let acceptsMs = 0;
    await disturbCluster(lab, {
      name: 'kills',
      times: lab.quick ? 1 : 10,
      async disturb({ lanes, tag, random, count }) {
        const killed = await cluster.crash(tag, random.between(0, MAX_ALONE_MS));
        const killedMs = performance.now();
        await cluster.failsOver(tag, killed);
        const promotedMs = performance.now();
        // The killed node is started again, as a supervisor would do. Publishing waits for a replica of the new
        // master, which has no other.
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
        lab.say(`${what} (${count})`);
        await cluster.isWhole();
      },
    });
    const goesOn = lab.quick || acceptsMs <= GOES_ON_BAR_MS;
    lab.bar('publishes ≤ 2 s after the new master has a replica', goesOn, `${Math.round(acceptsMs)} ms`);
    lab.noneOutOfOrder({ mayRewind: true });
    // Events that only the killed master had, from topics on other masters, are stored again on the new one.
    lab.say(`stored twice: ${lab.ledger.totals().storedTwice}`);
  },
};
