import type { Reply } from '../../store/contracts.ts';
import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Maximum script calls for one subscriber, each of which counts 2,000 batches. The gauges of longer queues are not
 * checked.
 */
const MAX_CALLS = 1000;

/**
 * Corrects the stored numbers (gauges) of each subscriber's queued batches and events, and of its events in dead
 * letters.
 */
export async function sweepGauges(walk: Walk, seen: Seen): Promise<void> {
  const [withBatches, withLetters] = [seen.of('batches_queued'), seen.of('dead_letters_of')];
  await walk.addMembers(withBatches, 'gauge_events');
  await walk.addMembers(withBatches, 'gauge_batches');
  await walk.addMembers(withLetters, 'dead_letters_events');
  for (const token of withBatches) await walk.skippable(correct(walk, 'batches', token));
  for (const token of withLetters) await walk.skippable(correct(walk, 'dead_letters', token));
}

async function correct(walk: Walk, what: 'batches' | 'dead_letters', token: string): Promise<void> {
  let cuts = 0;
  let counted: Reply<'sweep_gauges'>['counted'] = [];
  for (let calls = 0; calls < MAX_CALLS && !walk.aborted; calls++) {
    const reply = await walk.run('sweep_gauges', { what, token, cuts, counted });
    if (reply.finished) return walk.report(reply.findings);
    ({ cuts, counted } = reply);
  }
}
