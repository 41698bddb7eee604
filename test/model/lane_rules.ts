import assert from 'node:assert/strict';
import type { WorkerKind } from '../../src/delivering/queue.ts';
import type { Share } from '../../src/store/job.ts';
import { LANE_LIMIT, type Model } from './model.ts';
import type { Batch, Hold } from './things.ts';

/** A batch that a worker gets, and how it enters the lane of its subscriber. */
interface Entry {
  share: Share | undefined;
  inOrder: boolean;
}

/** The part of the workers that is regular; the others are spare, and no share counts them. */
const REGULAR_PART = 3 / 4;
/** For each share, the number by which the number of regular workers is divided to get the size of the share. */
const PARTS: Record<Share, number> = { slow: 2, failing: 4, joins: 16 };

/** Checks that a worker may be given this batch now. */
export function enter(model: Model, batch: Batch, kind: WorkerKind): Entry {
  const { token, name } = batch;
  assert.equal(model.holderOf(batch), undefined, `${name} is nobody's`);
  const alone = kind === 'quarantine';
  assert.equal(model.isSuspect(batch), alone, `${name} is a suspect`);
  const subscriber = model.subscribers.get(token);
  // The subscriber has left: a worker gets the batch only to delete it.
  if (!subscriber) return { share: undefined, inOrder: false };
  const { ordered, pausedBy, proven, slow, throttledUntilMs, inFlight } = subscriber;
  const ofLane = [...model.holds.values()].filter((hold) => model.tokenOf(hold) === token);
  assert.ok(!pausedBy, `${token} is paused by ${pausedBy}`);
  assert.ok((throttledUntilMs ?? 0) <= model.nowMs, `${token} may be tried`);
  const fails = throttledUntilMs !== undefined;
  const share = fails ? 'failing' : slow || !proven ? 'slow' : undefined;
  const workers = [...model.workers.keys()].filter((worker) => model.mainWorkers.has(worker)).length;
  const others =
    [...model.holds.values()].filter((hold) => typeof hold.work !== 'string').length - ofLane.length;
  const quarter = Math.max(1, Math.floor((kind === 'spare' ? workers - others : workers) / 4));
  const room = alone ? Number.POSITIVE_INFINITY : Math.min(inFlight ?? LANE_LIMIT, quarter);
  const most = ordered || fails || !proven ? 1 : room;
  assert.ok(
    ofLane.length < most,
    `${token} has room for ${name} beside ${ofLane.length} and ${others} of others`,
  );
  if (ordered) assert.equal(oldest(model, token), batch, `${name} is the oldest of ${token}`);
  if (share && !alone) {
    const sharing = [...model.holds.values()].filter((hold) => hold.share === share);
    const part = Math.max(1, Math.floor((workers * REGULAR_PART) / PARTS[share]));
    const room =
      share === 'slow' ? roomOfSlow(model, sharing, part, ofLane.length > 0) : part - sharing.length;
    assert.ok(room > 0, `${sharing.length} of ${workers} are ${share}`);
  }
  return { share, inOrder: ordered };
}

function oldest(model: Model, token: string): Batch | undefined {
  return model.batches.find((each) => each.token === token);
}

/** Returns the room in the share. A quarter is kept for lanes that hold no delivery, also if the share is overfull. */
function roomOfSlow(model: Model, sharing: Hold[], part: number, holdsSome: boolean): number {
  const kept = Math.floor(part / 4);
  if (holdsSome) return part - kept - sharing.length;
  const byLane = Object.values(Object.groupBy(sharing, (hold) => model.tokenOf(hold) ?? ''));
  const singles = byLane.filter((holds) => holds?.length === 1).length;
  return Math.max(part - sharing.length, kept - singles);
}
