import type { Attacker } from './attacker.ts';
import { fillBatches, holdWorkers, keepConnections } from './attacks/deliveries.ts';
import { churnTopics, spendKeys, takeNames } from './attacks/names.ts';
import { holdBodies, holdRoom, pipelineReads, sendNonsense } from './attacks/requests.ts';

/**
 * The attacks of hostile clients, one each, all at once, until they are stopped. No attack expects to be
 * accepted.
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
