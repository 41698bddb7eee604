import { until } from '../../harness/until.ts';
import { acceptedBy, allAccept, allDeliver, CLUSTER_BUS, publishEverywhere } from '../cluster_scene.ts';
import type { Scenario } from '../scenario.ts';

/** The slots of partitions move to other masters of a cluster, key by key, under a bus that publishes and delivers. */
export const slotMigration: Scenario = {
  name: 'slot-migration',
  title:
    'the slot of a partition moves to another master of a cluster key by key, again and again (8 partitions)',
  events: { full: 10_000, quick: 300 },
  bus: CLUSTER_BUS,
  async run(lab) {
    const lanes = await publishEverywhere(lab, 400);
    const { cluster } = lab.bus;
    const processes = [lab.bus.process('web'), lab.bus.process('worker')];
    const random = lab.random.fork('moves');
    const moves = lab.quick ? 2 : 20;
    for (let move = 1; move <= moves; move++) {
      await until(() => acceptedBy(lanes) >= (lab.events / (moves + 1)) * move, { timeoutMs: 60_000 });
      const { tag } = lanes[random.whole(0, lanes.length - 1)] ?? { tag: '' };
      const from = await cluster.masterOf(tag);
      const others = (await cluster.masters()).filter((each) => each !== from);
      const to = others[random.whole(0, others.length - 1)] ?? from;
      const beganMs = performance.now();
      await cluster.moveSlot(tag, to);
      const movedMs = performance.now();
      await Promise.all([allAccept(lanes), allDeliver(lanes)]);
      lab.recovered(performance.now() - movedMs);
      const went = `moved in ${Math.round(movedMs - beganMs)} ms`;
      lab.say(
        `${went} (${move} of ${moves}); all topics work ${Math.round(performance.now() - movedMs)} ms later`,
      );
    }
    await until(() => acceptedBy(lanes) >= lab.events, { timeoutMs: 60_000, what: 'all are published' });
    for (const { publishing } of lanes) await publishing.stop();
    await lab.settle();
    const ended = processes.filter(({ runs }) => !runs).map(({ name }) => name);
    lab.bar('no process exits', ended.length === 0, ended.join());
    const { outOfOrder = 0 } = lab.ledger.totals();
    lab.bar('out of order 0', outOfOrder === 0, `${outOfOrder}`);
  },
};
