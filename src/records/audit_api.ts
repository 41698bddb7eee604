import { z } from 'zod';
import { ACTIONS } from '../routing/actions.ts';
import { DEFAULT_LISTED, LIMIT, nextLink, PLACE_MEANING, PLACE_RULE, TIME } from '../routing/paging.ts';
import { ENTRIES_PER_CALL } from '../routing/picking.ts';
import { ONCE, parameters } from '../routing/query.ts';
import { ok, type Route, route, WATCHERS } from '../routing/route.ts';
import { NAMED, oneOf } from '../routing/schemas.ts';
import type { Audit, StoredEntry } from './audit.ts';

const QUERY = parameters({
  since: TIME.describe('Leaves out what is older than this time (ms since 1970).'),
  client: z.string(ONCE).optional().describe('The public name of a client.'),
  action: oneOf(ACTIONS).optional().describe('What the calls did.'),
  target: z
    .string(ONCE)
    .min(1, 'is empty')
    .optional()
    .describe('What the calls were about, or whose it was: a name or an id.'),
  limit: LIMIT,
  before: z
    .string(PLACE_RULE)
    .regex(/^[1-9]\d{0,14}-\d{1,15}$/, PLACE_RULE)
    .optional()
    .describe(PLACE_MEANING),
});

/** An entry of the audit: a call that changed something, or tried to. */
const ENTRY = z
  .object({
    id: z.string(),
    at: z.int().describe('When the call ended.'),
    action: z.string().describe('Such as `topic.delete`.'),
    role: z.string().describe('`client`, `root`, `viewer`, or `bus` for what the bus did by itself.'),
    client: z.string().nullable().describe('Its public name.'),
    target: z.string().nullable().describe('What the call was about; null if it was the caller itself.'),
    address: z.string().describe('Empty if the bus did it.'),
    status: z.int(),
    code: z.string().nullable().describe('Of an error, or why the bus did it.'),
    subscriptions: z.int().nullable().describe('How many subscriptions ended with a deleted topic.'),
  })
  .register(NAMED, { name: 'AuditEntry' });
export type AuditEntry = z.infer<typeof ENTRY>;

/** `/audit`: lists who has changed what. */
export function auditApi({ audit }: { audit: Audit }): Route[] {
  return [
    route('GET /audit', WATCHERS, {
      query: QUERY,
      answers: { 200: z.array(ENTRY) },
      async handle({ path, query }) {
        const { limit, before, ...filter } = query;
        const { entries, looked, next } = await audit.list(filter, limit ?? DEFAULT_LISTED, before);
        const headers = next === undefined ? undefined : nextLink(path, { ...filter, limit, before: next });
        return { ...ok(entries.map(shown)), headers, priceInCalls: looked / ENTRIES_PER_CALL };
      },
    }),
  ];
}

function shown(entry: StoredEntry): AuditEntry {
  return {
    id: entry.id,
    at: Number.parseInt(entry.id, 10),
    action: entry.action ?? '',
    role: entry.role ?? '',
    client: entry.client || null,
    target: entry.target || null,
    address: entry.address ?? '',
    status: Number(entry.status),
    code: entry.code || null,
    subscriptions: entry.subscriptions ? Number(entry.subscriptions) : null,
  };
}
