import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Corrects the stored numbers (gauges) of each subscriber's queued batches and events, and of its events in dead
 * letters.
 */
export async function sweepGauges(walk: Walk, seen: Seen): Promise<void> {
  const [withBatches, withLetters] = [seen.of('batches_queued'), seen.of('dead_letters_of')];
  await walk.addMembers(withBatches, 'gauge_events');
  await walk.addMembers(withBatches, 'gauge_batches');
  await walk.addMembers(withLetters, 'dead_letters_events');
  for (const [what, tokens] of [
    ['batches', withBatches],
    ['dead_letters', withLetters],
  ] as const)
    for (const token of tokens) {
      if (walk.aborted) return;
      await walk.repair('sweep_gauges', { what, token });
    }
}
