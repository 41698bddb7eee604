import assert from 'node:assert/strict';
import { constants, getPriority, setPriority } from 'node:os';
import { sleep } from '../../src/clock.ts';
import type { Findings, Victim } from './victim.ts';

const QUIET_MS = 1000;
const ATTACK_MS = 1500;
const ROUNDS = 3;
const MAX_RATIO = 2;
/** How much longer the victim may wait beside the attack; `FENCES_SLACK_MS` sets it, as `npm run fences` does to 20. */
const SLACK_MS = Number(process.env.FENCES_SLACK_MS ?? 100);
const ENDS_WITHIN_MS = 20_000;

/**
 * Attacks until `signal` is aborted, or for as long as it has something to do, and undoes what would hurt the next round. It expects
 * to be refused. What it throws fails the test.
 */
export type Attack = (signal: AbortSignal) => Promise<unknown>;

export interface Comparison {
  quiet: Findings;
  beside: Findings;
}

/**
 * Measures the victim in quiet, then beside the attack. Throws if any event of the victim was refused, dropped or lost, or if its p99
 * of publishing or of delivering was more than twice as long as in quiet and longer by more than the slack. Missed times are
 * measured again, because noise misses them once and a broken fence always; the attack is then called again.
 *
 * How to write a test with it: one `busWithDefaultLimits` and one `Victim.forTests` a file; rounds of 1–2 s, as all the fences
 * together have 75 s of `bin/test`; what an attack needs to be in place before is set up before the call.
 *
 *     const bus = busWithDefaultLimits();
 *     const victim = Victim.forTests(bus);
 *     test('…', async (t) => {
 *       const attacker = await Attacker.start(bus, t);
 *       await besideAttack(victim, (signal) => floodOfMetrics(attacker, signal));
 *     });
 */
export async function besideAttack(victim: Victim, attack: Attack, ms = ATTACK_MS): Promise<Comparison> {
  for (let round = 1; ; round++) {
    const quiet = await victim.measure(QUIET_MS);
    assertUnharmed(quiet, 'in quiet');
    const beside = await during(attack, () => victim.measure(ms));
    assertUnharmed(beside, 'beside the attack');
    const late = lateness(quiet, beside);
    if (late === undefined) return { quiet, beside };
    assert.ok(round < ROUNDS, `${late}, ${ROUNDS} times`);
  }
}

function assertUnharmed({ refused, dropped, lost }: Findings, when: string): void {
  assert.equal(
    refused.length,
    0,
    `${refused.length} publishes of the victim were refused ${when}: ${refused[0]}`,
  );
  assert.equal(dropped, 0, `${dropped} events of the victim were dropped ${when}`);
  assert.equal(lost, 0, `${lost} events of the victim did not arrive ${when}`);
}

/** Says which time was missed; undefined if none was. */
function lateness(quiet: Findings, beside: Findings): string | undefined {
  for (const time of ['publishP99Ms', 'deliveryP99Ms'] as const) {
    const limitMs = Math.max(MAX_RATIO * quiet[time], quiet[time] + SLACK_MS);
    // NaN, if nothing was published, is late too.
    if (!(beside[time] <= limitMs))
      return `${time} of the victim was ${beside[time].toFixed(1)} beside the attack, ${quiet[time].toFixed(1)} in quiet`;
  }
  return undefined;
}

async function during<T>(attack: Attack, measure: () => Promise<T>): Promise<T> {
  const stopping = new AbortController();
  const raisePriority = lowerPriority();
  const attacking = attack(stopping.signal);
  attacking.catch(() => {}); // reported below
  const measured = await measure().finally(() => {
    stopping.abort();
    raisePriority();
  });
  await ends(attacking);
  return measured;
}

async function ends(attacking: Promise<unknown>): Promise<void> {
  const ended = new AbortController();
  const inTime = await Promise.race([
    attacking.then(() => true),
    sleep(ENDS_WITHIN_MS, ended.signal).then(() => false),
  ]).finally(() => ended.abort());
  assert.ok(inTime, `the attack does not end within ${ENDS_WITHIN_MS} ms`);
}

/** An attacker has a machine of its own, so its CPU must not be the victim's. Only root may raise the priority again. */
function lowerPriority(): () => void {
  const before = getPriority();
  setPriority(Math.max(before, constants.priority.PRIORITY_BELOW_NORMAL));
  return () => {
    try {
      setPriority(before);
    } catch {}
  };
}
