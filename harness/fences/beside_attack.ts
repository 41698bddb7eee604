import assert from 'node:assert/strict';
import { constants, getPriority, setPriority } from 'node:os';
import { sleep } from '../../src/clock.ts';
import type { Findings, Victim } from './victim.ts';

const ROUNDS = 3;
const MAX_RATIO = 2;
/** Maximum time that the victim may wait longer beside the attack. */
const SLACK_MS = 20;
/** Times for which the victim is measured. */
const [QUIET_MS, ATTACK_MS] = [1000, 1500];
const ENDS_WITHIN_MS = 20_000;

/**
 * Attacks until `signal` is aborted or the attack is done, and then undoes what would affect the next round. Refusals
 * are expected. If the attack throws, the test fails.
 */
type Attack = (signal: AbortSignal) => Promise<unknown>;

interface Comparison {
  quiet: Findings;
  beside: Findings;
}

/**
 * Measures the victim in quiet, and then beside the attack. Throws if an event of the victim was refused, dropped
 * or lost. Throws too if its p99 of publishing or of delivering became more than twice as long and grew by more than
 * the slack. A time that is too long is measured again, with another call of the attack: noise makes it too long once,
 * a broken fence always does.
 *
 * A test file has one `busWithDefaultLimits` and one `Victim.forTests`, or those of
 * `test/security/fences/default_limits.ts` if it needs no settings. A measurement should last 1 to 2 s, because
 * `npm run fences` runs all fences one after another. What an attack needs is set up before the call.
 *
 *     const bus = busWithDefaultLimits();
 *     const victim = Victim.forTests(bus);
 *     test('…', async (t) => {
 *       const attacker = await Attacker.start(bus, t);
 *       await besideAttack(victim, (signal) => pipelineReads(attacker, signal));
 *     });
 */
export async function besideAttack(victim: Victim, attack: Attack): Promise<Comparison> {
  for (let round = 1; ; round++) {
    const quiet = await victim.measure(QUIET_MS);
    assertUnharmed(quiet, 'in quiet');
    const beside = await during(attack, () => victim.measure(ATTACK_MS));
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

/** Returns a message about the first time that is too long; undefined if none is. */
function lateness(quiet: Findings, beside: Findings): string | undefined {
  for (const time of ['publishP99Ms', 'deliveryP99Ms'] as const) {
    const limitMs = Math.max(MAX_RATIO * quiet[time], quiet[time] + SLACK_MS);
    // NaN, the time if nothing was published, counts as late too.
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

/**
 * Lowers the priority of this process, as a real attacker would use the CPU of another machine. Returns a
 * function that restores it, if the user is root.
 */
function lowerPriority(): () => void {
  const before = getPriority();
  setPriority(Math.max(before, constants.priority.PRIORITY_BELOW_NORMAL));
  return () => {
    try {
      setPriority(before);
    } catch {}
  };
}
