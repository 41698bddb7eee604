import { slicesOf } from '../../chunks.ts';
import type { Reply } from '../../store/contracts.ts';
import type { Seen } from './batches.ts';
import type { Walk } from './walk.ts';

/**
 * Maximum delayed events that one script call looks up. It is low, because the call reads the whole JSON text of each
 * event.
 */
const TEXTS = 50;

/**
 * Repairs the delayed events of all topics. Then corrects the stored number of each client's delayed events, and the
 * sum of their bytes.
 */
export async function sweepDelayed(walk: Walk, seen: Seen): Promise<void> {
  const topics = seen.of('delayed_due', 'delayed_events');
  const clients = seen.of('delayed_held');
  await walk.addMembers(topics, 'delayed_topics');
  for (const topic of topics) {
    if (walk.aborted) return;
    const swept = await walk.skippable(sweepTopic(walk, topic));
    if (!swept) continue;
    const { hasTextsWithoutEntry, client } = swept;
    if (client !== undefined) clients.add(client);
    if (!hasTextsWithoutEntry) continue;
    await enterTexts(walk, topic);
    await walk.skippable(sweepTopic(walk, topic));
  }
  // One client in each call, because a client may have a thousand topics. 10,000 topics in one call took Redis 30 ms.
  for (const token of clients) {
    if (walk.aborted) return;
    await walk.repair('sweep_delayed_held', { tokens: [token] });
  }
}

async function sweepTopic(walk: Walk, topic: string): Promise<Reply<'sweep_delayed'>> {
  for (let place = { from: 0, added: 0, members: 0, bytes: 0 }; ; ) {
    const reply = await walk.run('sweep_delayed', { topic, ...place });
    walk.report(reply.findings);
    if (reply.isFinished || walk.aborted) return reply;
    place = reply;
  }
}

/**
 * Adds an entry to `delayed:due:{topic}` for each delayed event that is in the hash `delayed:events:{topic}`, but has
 * no entry. Without an entry, the event would never be published.
 */
async function enterTexts(walk: Walk, topic: string): Promise<void> {
  for await (const ids of walk.members('delayed_events', topic))
    for (const slice of slicesOf(ids, TEXTS)) await walk.repair('sweep_delayed_texts', { topic, ids: slice });
}
