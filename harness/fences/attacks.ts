import type { Attacker } from './attacker.ts';
import { fillBatches, holdWorkers, keepConnections } from './attacks/deliveries.ts';
import { churnTopics, spendKeys, takeNames } from './attacks/names.ts';
import { holdBodies, holdRoom, pipelineReads, sendNonsense } from './attacks/requests.ts';

/**
 * The attacks of the fault scenario `hostile-clients`. There they run all at once, each by a client of its own. An
 * attack goes on until it is stopped, even while its requests are refused.
 */
export const ATTACKS = {
  'hold workers': holdWorkers,
  'fill batches': fillBatches,
  'pipeline reads': pipelineReads,
  'churn topics': churnTopics,
  'take names': takeNames,
  'keep connections': keepConnections,
  'hold bodies': holdBodies,
  'hold room': holdRoom,
  'spend keys': spendKeys,
  'send nonsense': sendNonsense,
} satisfies Record<string, (attacker: Attacker, signal: AbortSignal) => Promise<void>>;

export type AttackName = keyof typeof ATTACKS;
