import type { AgendaKind } from '../flow/agenda.ts';
import type { Partition } from '../store/partition.ts';

/** Maximum due jobs that one script call makes ready for workers. 500 take Redis a few milliseconds. */
const PROMOTE_SLICE = 500;

interface Promoted {
  promoted: number;
  /**
   * The time until the next scheduled job is due, precise to a µs. 0 if this call has left due jobs for the next call.
   * Undefined if no job is scheduled.
   */
  nextDueMs: number | undefined;
  /**
   * For each kind in AGENDA (delayed events, triggers and join keys), the time until its first entry is due. 0 if the
   * entry is due already, undefined if there is no entry.
   */
  agendaDueMs: Record<AgendaKind, number | undefined>;
}

/** Makes due jobs ready for workers: at most PROMOTE_SLICE scheduled jobs of both queues (`main`, `aux`) together. */
export async function promoteDue(partition: Partition): Promise<Promoted> {
  const reply = await partition.runPermitted('schedule', { limit: PROMOTE_SLICE });
  const inMs = (us: number | undefined) => (us === undefined ? undefined : us / 1000);
  return {
    promoted: reply.promoted,
    nextDueMs: inMs(reply.nextDueUs),
    agendaDueMs: {
      delayed: inMs(reply.delayedDueUs),
      triggers: inMs(reply.triggersDueUs),
      joins: inMs(reply.joinsDueUs),
    },
  };
}
