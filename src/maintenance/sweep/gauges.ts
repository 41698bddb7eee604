import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/** The most calls for one subscriber, each of 2,000 batches: should it change faster than it is counted, the next sweep tries again. */
const MOST_CALLS = 1000;

/** Corrects the gauges of all subscribers that have one, or have something queued or buried. */
export async function sweepGauges(
  walk: Walk,
  { queued, buried }: Pick<Seen, 'queued' | 'buried'>,
): Promise<void> {
  const { keys } = walk.store;
  const withBatches = await fieldsOf(walk, [keys.gauge_events(), keys.gauge_batches()]);
  const withLetters = await fieldsOf(walk, [keys.dead_letters_events()]);
  for (const token of queued.union(withBatches)) await correct(walk, 'batches', token);
  for (const token of buried.union(withLetters)) await correct(walk, 'dead_letters', token);
}

async function fieldsOf(walk: Walk, gauges: string[]): Promise<Set<string>> {
  const tokens = new Set<string>();
  for (const gauge of gauges) {
    for await (const slice of walk.members('hash', gauge)) for (const each of slice) tokens.add(String(each));
  }
  return tokens;
}

async function correct(walk: Walk, what: 'batches' | 'dead_letters', token: string): Promise<void> {
  let counted: (Buffer | number)[] = [];
  for (let calls = 0; calls < MOST_CALLS && !walk.aborted; calls++) {
    const reply = await walk.run('sweep_gauges', what, token, ...counted);
    const [finished, list] = reply as [number, (Buffer | number)[]];
    if (finished === 1) return walk.report(list as Buffer[]);
    counted = list;
  }
}
