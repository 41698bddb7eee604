import { answer } from '../../harness/http/receiver.ts';
import { sleep } from '../../src/clock.ts';
import { Recovery } from '../recovery.ts';
import type { Scenario } from '../scenario.ts';

const LEASE_MS = 2000;
/**
 * Maximum recovery time, in leases. A killed worker counts as dead after one lease. Then its jobs wait for the next
 * scrub. With several partitions, scrubs come half as often.
 */
const MAX_LEASES = { one: 1.5, several: 2 };
const MAX = 100;
/** Subscribers answer slowly, so that deliveries are in flight when a worker dies. */
const ANSWER_MS = 40;

/** Two workers deliver to three subscribers; a random one is killed, and another started in its place. */
export const workerKill: Scenario = {
  name: 'worker-kill',
  title: `a worker gets SIGKILL every 2–5 s (lease ${LEASE_MS / 1000} s)`,
  events: { full: 100_000, quick: 2000 },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: String(LEASE_MS / 1000) } },
  async run(lab) {
    await lab.start('web');
    const workers = [await lab.start('worker'), await lab.start('worker')];
    for (const name of ['search', 'mail', 'audit']) {
      const { receiver } = await lab.subscribe(name, { topic: 'widgets', max: MAX, timeout: 50 });
      receiver.usual = (response) => setTimeout(() => answer.status(204)(response), ANSWER_MS);
    }
    const recovery = new Recovery(lab.bus.partitions);
    lab.after(() => recovery.close());
    const random = lab.random.fork('kills');
    const publishing = lab.publish({
      topic: 'widgets',
      events: lab.events,
      ...{ publishers: 4, perPost: 10, perSecond: 1500 },
    });
    let [kills, held] = [0, 0];
    while (publishing.underWay || kills === 0) {
      await Promise.race([sleep(random.between(2000, 5000) / (lab.quick ? 4 : 1)), publishing.done]);
      const index = random.whole(0, 1);
      const atMs = performance.now();
      await workers[index]?.kill();
      const caught = await recovery.begin(atMs);
      lab.say(`killed worker ${++kills} with ${caught} deliveries in flight`);
      held += caught;
      workers[index] = await lab.start('worker');
    }
    await publishing.done;
    lab.recovered(await recovery.end());
    await lab.settle();

    const { duplicated } = lab.ledger.totals();
    const recoveryMs = lab.recoveryMs ?? 0;
    lab.bar(
      `duplicated ≤ ${held} in flight at ${kills} kills × ${MAX}`,
      duplicated <= held * MAX,
      `${duplicated}`,
    );
    // Recovery time is judged only on an otherwise idle machine.
    const leases = lab.bus.partitions.all.length === 1 ? MAX_LEASES.one : MAX_LEASES.several;
    if (!lab.quick)
      lab.bar(
        `recovery ≤ ${leases} × lease`,
        recoveryMs <= leases * LEASE_MS,
        `${Math.round(recoveryMs)} ms`,
      );
  },
};
