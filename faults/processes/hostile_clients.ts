import { Attacker } from '../../harness/fences/attacker.ts';
import { ATTACKS, type AttackName } from '../../harness/fences/attacks.ts';
import type { Credentials } from '../../harness/http/bus_client.ts';
import { Client } from '../../harness/http/client.ts';
import { serveCalls } from '../../harness/measuring/helper.ts';

export type HostileCalls = { attack: typeof attack; stop: typeof stop };

interface Attacking {
  name: AttackName;
  attacker: Attacker;
  stopping: AbortController;
  ended: Promise<unknown>;
  ends: (() => unknown)[];
}

let underWay: Attacking[] = [];

/** Starts an attack by this client, until `stop`. */
function attack(name: AttackName, url: string, credentials: Credentials): void {
  const ends: (() => unknown)[] = [];
  const owner = { after: (end: () => unknown) => void ends.push(end) };
  const attacker = new Attacker(new Client(url, credentials), url, owner);
  const stopping = new AbortController();
  underWay.push({ name, attacker, stopping, ended: ATTACKS[name](attacker, stopping.signal), ends });
}

/** Ends all attacks. Resolves with the counts of their answers by status; rejects if an attack itself has failed. */
async function stop(): Promise<Map<AttackName, Map<number, number>>> {
  for (const { stopping } of underWay) stopping.abort();
  await Promise.all(underWay.map(({ ended }) => ended));
  for (const { ends } of underWay) for (const end of ends) await end();
  const statuses = new Map(underWay.map(({ name, attacker }) => [name, attacker.statuses]));
  underWay = [];
  return statuses;
}

serveCalls({ attack, stop } satisfies HostileCalls);
