import { allAccept, allDeliver, CLUSTER_BUS, disturbCluster } from '../cluster_scene.ts';
import type { Scenario } from '../scenario.ts';

/** The slots of partitions move to other masters of a cluster, key by key, under a bus that publishes and delivers. */
export const slotMigration: Scenario = {
  name: 'slot-migration',
  title:
    'the slot of a partition moves to another master of a cluster key by key, again and again (8 partitions)',
  events: { full: 10_000, quick: 300 },
  bus: CLUSTER_BUS,
  async run(lab) {
    const { cluster } = lab.bus;
    await disturbCluster(lab, {
      name: 'moves',
      times: lab.quick ? 2 : 20,
      async disturb({ lanes, tag, random, count }) {
        const from = await cluster.masterOf(tag);
        const others = (await cluster.masters()).filter((each) => each !== from);
        const to = others[random.whole(0, others.length - 1)] ?? from;
        const beganMs = performance.now();
        await cluster.moveSlot(tag, to);
        const movedMs = performance.now();
        await Promise.all([allAccept(lanes), allDeliver(lanes)]);
        const worksMs = performance.now();
        lab.recovered(worksMs - movedMs);
        const [moved, works] = [movedMs - beganMs, worksMs - movedMs].map(Math.round);
        lab.say(`moved in ${moved} ms (${count}); all topics work ${works} ms later`);
      },
    });
    lab.noneOutOfOrder();
  },
};
