import { ATTACKS, type AttackName } from '../../harness/fences/attacks.ts';
import type { Client } from '../../harness/http/client.ts';
import { residentMiB } from '../../harness/measuring/cpu.ts';
import { Helper } from '../../harness/measuring/helper.ts';
import type { Timing } from '../../harness/measuring/timed_audience.ts';
import { DEFAULT_LIMITS } from '../../harness/processes/bus_environment.ts';
import { until } from '../../harness/until.ts';
import { GoodClients, PER_SECOND } from '../good_clients.ts';
import type { Lab } from '../lab.ts';
import type { HostileCalls } from '../processes/hostile_clients.ts';
import type { Scenario } from '../scenario.ts';

const ALL = Object.keys(ATTACKS) as AttackName[];
const GOOD = 20;
const SECONDS = {
  full: { quiet: 20, alone: 10 },
  quick: { quiet: 1, alone: 1 },
};
/** Maximum time from the start of a publish until a receiver has the event. A quick run is too short to judge times. */
const IN_TIME_MS = 1000;

/**
 * The good clients publish and receive in one process that does nothing else. The hostile clients, which would have
 * machines of their own, run in another process of the lowest priority. The bus runs with its default limits.
 */
export const hostileClients: Scenario = {
  name: 'hostile-clients',
  title: `${ALL.length} clients, each with another attack, beside ${GOOD} good ones`,
  events: { full: 120 * PER_SECOND, quick: 2 * PER_SECOND },
  bus: {
    env: {
      ...DEFAULT_LIMITS,
      // Millions of hosts, for the attack that moves its callback from host to host.
      ROUTEMASTER_CALLBACK_ALLOW: '127.0.0.0/8',
    },
    redis: { maxmemory: '512mb' },
  },
  async run(lab) {
    const processes = [await lab.start('web'), await lab.start('worker')];
    const seconds = SECONDS[lab.quick ? 'quick' : 'full'];
    const good = await GoodClients.open(lab, GOOD);
    await good.measure('warm-up', lab.quick ? 1 : 5);
    const quiet = await good.measure('quiet', seconds.quiet);
    lab.say(`in quiet ${describe(quiet)}`);
    const beside = await besideAttacks(lab, ALL, () => good.measure('beside', lab.events / PER_SECOND));
    lab.say(`beside all attacks ${describe(beside)}`);
    const met = judge(lab, quiet, beside, await good.dropped());
    const memories = processes.map(({ name, pid }) => `${name} ${residentMiB(pid).toFixed(0)} MiB`);
    lab.say(`memory: ${memories.join(', ')}`);
    // If a bar was missed, each attack is repeated alone, to show which is at fault.
    for (const each of met ? [] : ALL) {
      const found = await besideAttacks(lab, [each], () => good.measure(each, seconds.alone));
      lab.say(`beside ${each} ${describe(found)}`);
    }
    lab.noneExited(processes);
  },
};

/** Measures while clients attack; afterwards, root removes the clients and what they have left. */
async function besideAttacks(lab: Lab, names: AttackName[], measure: () => Promise<Timing>): Promise<Timing> {
  const hostile = new Helper<HostileCalls>(lab, new URL('../processes/hostile_clients.ts', import.meta.url), {
    last: true,
  });
  const clients: Client[] = [];
  for (const name of names) {
    const client = await lab.bus.client('hostile');
    clients.push(client);
    await hostile.call('attack', name, lab.bus.url, { token: client.token, secret: client.secret });
  }
  const timing = await measure();
  for (const [name, statuses] of await hostile.call('stop')) {
    const counts = [...statuses].map(([status, count]) => `${count} × ${status}`);
    lab.say(`${name} was answered ${counts.join(', ') || 'nothing'}`);
  }
  for (const { token } of clients) {
    const remove = () => lab.bus.root.call('DELETE', `/api_tokens/${token}`).then(() => true);
    await until(remove, { what: 'a hostile client is removed' });
  }
  return timing;
}

/** Returns whether all bars were met. */
function judge(lab: Lab, quiet: Timing, beside: Timing, dropped: number): boolean {
  const refused = [...quiet.refused, ...beside.refused];
  lab.bar(
    'all events of the good ones are accepted',
    refused.length === 0,
    `${refused.length} were not${refused[0] ? `, such as ${refused[0]}` : ''}`,
  );
  const missing = quiet.missing + beside.missing;
  lab.bar('all of them are received', missing === 0, `${missing} were not`);
  lab.bar('none of them is dropped', dropped === 0, `${dropped} were`);
  if (!lab.quick) {
    const slowestMs = Math.max(beside.publish.maxMs, beside.delivery.maxMs);
    lab.bar(
      `each of them is accepted and received within ${IN_TIME_MS} ms beside the attacks`,
      slowestMs <= IN_TIME_MS,
      `the slowest took ${slowestMs.toFixed(0)} ms`,
    );
  }
  return lab.bars.every(({ ok }) => ok);
}

function describe({ publish, delivery, refused, missing }: Timing): string {
  const times = [publish, delivery].map(({ p50Ms, p99Ms, maxMs }) =>
    [p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(1)).join('/'),
  );
  return `p50/p99/max of publish ${times[0]} ms, of delivery ${times[1]} ms; ${refused.length} refused, ${missing} missing`;
}
