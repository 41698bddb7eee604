import { z } from 'zod';
import { PERFECT_HEALTH } from '../config/subscription_defaults.ts';
import { NAMED } from '../routing/schemas.ts';
import type { Partition } from '../store/partition.ts';
import { PAUSERS, pauserOf } from '../store/pause.ts';
import { pairsOf } from '../store/replies.ts';
import { splitCallback } from './callback_url.ts';
import { readDropNotice } from './drop_notice.ts';
import { readSettings, SHOWN_SETTINGS, type SubscriptionDefaults } from './subscription_settings.ts';

const ms = z.int();

const DROPS_REPORT = z.object({
  batches: z.int(),
  events: z.int(),
  from: ms.describe('When the oldest of these batches was opened.'),
  to: ms.describe('When the newest of these batches was opened.'),
  topics: z.record(z.string(), z.int()).describe('Events by topic.'),
  last_at: ms.nullable().describe('When the last of them were dropped; null if that was not noted.'),
  untold: z.int().describe('Events that no accepted delivery has reported yet.'),
});

export const HELD_BYTES = z
  .object({
    queued: z.int().describe('By its queued batches.'),
    dead_letters: z.int().describe('By its dead letters.'),
  })
  .describe('About how much of Redis is taken, as some of the batches are measured.');

const LATELY = z.object({
  rate: z.number().describe('Events that are delivered a second.'),
  success: z.number().nullable().describe('The share of events that were accepted; null if none was tried.'),
  drained_at: ms.nullable().describe('When its queue is empty if it goes on shrinking; null if it does not.'),
  dropped_at: ms
    .nullable()
    .describe(
      'From when on its events may be dropped: its queue does not shrink, and the memory is full then.',
    ),
  as_of: ms.describe('When the sample was made.'),
});

/** A subscriber as the API shows it. Times are in ms since the Unix epoch, by Redis's clock. */
export const SUBSCRIBER_REPORT = z
  .object({
    subscriber: z.string(),
    uuid: z
      .string()
      .nullable()
      .describe(
        'The user name of its deliveries, by which the receiver knows the bus; null in what others see.',
      ),
    callback: z.string().describe('Where it gets deliveries.'),
    ...SHOWN_SETTINGS,
    signing: z
      .enum(['v1', 'v1a'])
      .nullable()
      .describe(
        'The scheme of Standard Webhooks that signs new deliveries; null means that they are not signed.',
      ),
    topics: z.array(z.string()),
    health_points: z.int().describe('0 to 100.'),
    last_attempted_at: ms.nullable().describe('When a delivery was tried last.'),
    paused_at: ms.nullable().describe('Since when nothing is delivered to it.'),
    paused_by: z.enum(PAUSERS).nullable().describe('Who paused it: its callback by 410, root, or itself.'),
    events: z.object({
      sent: z.int().describe('How many were ever delivered.'),
      queued: z.int().describe('How many wait.'),
      oldest: ms.nullable().describe('When the oldest queued batch was opened.'),
    }),
    dead_letters: z.object({ batches: z.int(), events: z.int() }),
    bytes: HELD_BYTES,
    dropped: DROPS_REPORT.nullable().describe('What was dropped for memory since it subscribed.'),
    lately: LATELY.nullable().optional().describe('In sorted listings alone; null before the first sample.'),
  })
  .register(NAMED, { name: 'Subscriber' });

export type SubscriberReport = z.infer<typeof SUBSCRIBER_REPORT>;

/** A list in JSON that cjson in Redis has written. cjson writes an empty list as an empty object. */
type List<Item> = Item[] | Record<string, never>;

/**
 * The values that the script `read_subscribers` returns for each subscriber, under the names that the script uses.
 * False stands for a missing value. `hash` and `dropped` are flat lists (field, value, …).
 */
interface Row {
  token: string;
  hash: string[];
  topics: List<string>;
  queued_events: string | false;
  oldest_queued_us: string | false;
  queued_bytes: number;
  dead_batches: number;
  dead_bytes: number;
  dead_events: string | false;
  dropped: List<string>;
  /** Number of dropped events that no delivery has reported to the subscriber yet. False if there are none. */
  events_in_notice: string | false;
  /**
   * Number of dropped events in a notice that is on its way: a delivery carries it, and the subscriber has not accepted
   * the delivery yet. False if no notice is on its way.
   */
  events_in_carried_notice: string | false;
}

/** Returns the reports of those subscribers that exist. All tokens are of one partition. */
export async function readReports(
  partition: Partition,
  tokens: readonly string[],
  defaults: SubscriptionDefaults,
): Promise<SubscriberReport[]> {
  const rows: List<Row> = JSON.parse(await partition.run('read_subscribers', { tokens }));
  return listIn(rows).flatMap((row) => reportOf(row, defaults) ?? []);
}

function reportOf(row: Row, defaults: SubscriptionDefaults): SubscriberReport | undefined {
  const hash: Partial<Record<string, string>> = Object.fromEntries(pairsOf(row.hash));
  if (hash.callback === undefined) return undefined;
  return {
    subscriber: row.token,
    uuid: hash.uuid ?? '',
    callback: splitCallback(hash.callback).callback,
    ...readSettings(hash, defaults),
    signing: scheme(hash.signing),
    topics: listIn(row.topics).sort(),
    health_points: Number(hash.health_points ?? PERFECT_HEALTH),
    last_attempted_at: time(hash.last_attempted_at),
    paused_at: time(hash.paused_at),
    paused_by: pauserOf(hash.paused_at, hash.paused_by),
    events: {
      sent: Number(hash.sent ?? 0),
      queued: Number(row.queued_events || 0),
      oldest: row.oldest_queued_us === false ? null : Math.floor(Number(row.oldest_queued_us) / 1000),
    },
    dead_letters: { batches: row.dead_batches, events: Number(row.dead_events || 0) },
    bytes: { queued: row.queued_bytes, dead_letters: row.dead_bytes },
    dropped: dropsReport(row),
  };
}

function listIn<Item>(list: List<Item>): Item[] {
  return Array.isArray(list) ? list : [];
}

/** Returns the scheme of the newest signing key. The newest key comes first in `signing`. */
function scheme(signing: string | undefined): SubscriberReport['signing'] {
  if (signing === undefined) return null;
  return signing.startsWith('whsk_') ? 'v1a' : 'v1';
}

function time(ms: string | undefined): number | null {
  return ms === undefined ? null : Number(ms);
}

function dropsReport(row: Row): SubscriberReport['dropped'] {
  const hash: Record<string, string> = Object.fromEntries(pairsOf(listIn(row.dropped)));
  const all = readDropNotice(hash);
  if (!all) return null;
  const { fromMs: from, toMs: to, ...rest } = all;
  const untold = Number(row.events_in_notice || 0) + Number(row.events_in_carried_notice || 0);
  return { ...rest, from, to, last_at: time(hash.last_at), untold };
}
