import { serveCalls } from '../../harness/measuring/helper.ts';
import { Random } from '../../harness/random.ts';
import { Attacker, type Manner, type Outcome } from '../attack.ts';
import type { Known } from '../grammar.ts';
import { SlowConnections } from '../slow.ts';

export interface AttackPlan {
  port: number;
  known: Known;
  seed: string;
  requests: number;
  manner: Manner;
  /** Concurrent senders; each waits for its answer. */
  senders: number;
}

export type MaliceCalls = {
  attack: typeof attack;
  beSlow: typeof beSlow;
  stopSlow: typeof stopSlow;
};

async function attack({ port, known, seed, requests, manner, senders }: AttackPlan): Promise<Outcome> {
  const random = new Random(seed);
  const outcomes = await Promise.all(
    Array.from({ length: senders }, (_, n) => {
      const share = Math.floor(requests / senders) + (n < requests % senders ? 1 : 0);
      return new Attacker(port, known, random.fork(`sender ${n}`)).send(share, manner);
    }),
  );
  const statuses = new Map<number, number>();
  for (const outcome of outcomes)
    for (const [status, count] of outcome.statuses) statuses.set(status, (statuses.get(status) ?? 0) + count);
  return {
    sent: outcomes.reduce((sum, { sent }) => sum + sent, 0),
    statuses,
    faults: outcomes.flatMap(({ faults }) => faults),
  };
}

let slow: SlowConnections | undefined;

async function beSlow(count: number, port: number, known: Known, seed: string): Promise<void> {
  slow = await SlowConnections.open(count, port, known, new Random(seed));
}

/** Ends the slow connections. Resolves with the number that the server had closed before. */
async function stopSlow(): Promise<number> {
  await slow?.stop();
  return slow?.closed ?? 0;
}

serveCalls({ attack, beSlow, stopSlow } satisfies MaliceCalls);
