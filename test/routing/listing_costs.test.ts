import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { capturedLog } from '../../harness/captured_log.ts';
import { TestStore } from '../../harness/redis/store.ts';
import { routeTable } from '../../harness/route_table.ts';
import { Bus } from '../../harness/scripts/bus.ts';
import { putDeadLetters } from '../../harness/scripts/dead_letters.ts';
import { JoinCalls } from '../../harness/scripts/join_calls.ts';
import { nthWord } from '../../harness/scripts/names.ts';
import { putTrigger } from '../../harness/scripts/triggers.ts';
import { readConfig } from '../../src/config.ts';
import { BusError } from '../../src/errors.ts';
import { type ApiParts, buildApi } from '../../src/processes/api.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';
import { ENTRIES_PER_CALL } from '../../src/routing/picking.ts';
import type { Answer, Route } from '../../src/routing/route.ts';
import { Partitions } from '../../src/store/partitions.ts';

/** Number of entries that Redis has of each kind. To read them costs more than to read one queue of dead letters. */
const COUNT = 60;
/** The query parameters that say how many entries a page has, and where it begins. */
const PAGE = ['limit', 'after', 'before', 'cursor'];
/** A public name that nobody has. */
const NOBODY = 'nobody.0123456789abcdef';

/** Stands in place of such a query for a parameter by which Redis finds the entries at once, without reading others. */
const FOUND_AT_ONCE = undefined;

/**
 * For each listing, its parameters that filter. The value of a parameter is a query that matches nothing, although all
 * entries must be read to know this.
 */
const LISTINGS: Record<string, Record<string, string | undefined>> = {
  'GET /topics': { sort: FOUND_AT_ONCE, name: 'name=nothing' },
  'GET /topics/:name/delayed': {},
  'GET /triggers': { client: `client=${NOBODY}` },
  'GET /subscriptions': { sort: FOUND_AT_ONCE, state: 'state=failing', name: 'name=nobody' },
  'GET /subscribers': { sort: FOUND_AT_ONCE, state: 'state=failing', name: 'name=nobody' },
  'GET /joins': {},
  'GET /dead_letters': {
    subscriber: `subscriber=${NOBODY}`,
    join: `join=order&subscriber=${NOBODY}`,
    reason: 'reason=killed_worker',
    since: FOUND_AT_ONCE,
    until: FOUND_AT_ONCE,
  },
  'GET /deliveries': {
    subscriber: `subscriber=${NOBODY}`,
    join: `join=order&subscriber=${NOBODY}`,
    state: 'state=ready',
    since: FOUND_AT_ONCE,
    until: FOUND_AT_ONCE,
  },
  'GET /api_tokens': { name: 'name=nobody' },
  'GET /audit': {
    since: FOUND_AT_ONCE,
    client: `client=${NOBODY}`,
    action: 'action=trigger.fire',
    target: 'target=nothing',
  },
  'GET /jobs': { queue: FOUND_AT_ONCE, state: 'state=waiting' },
  'GET /tail': { topic: FOUND_AT_ONCE },
};

/** The listings that read all names to make a page. */
const READ_ALL = ['/topics', '/subscriptions', '/subscribers', '/joins', '/triggers', '/api_tokens'];

const redis = new TestStore();
let routes: Route[] = [];

const isListing = ({ answers, method }: Route) => method === 'GET' && answers[200] instanceof z.ZodArray;

async function call(path: string, query: string, params = {}): Promise<Answer> {
  const row = routes.find((each) => each.method === 'GET' && each.path === path) as Route;
  const inputs = {
    params,
    query: row.query?.schema.parse(Object.fromEntries(new URLSearchParams(query))),
  };
  return row.handle({ caller: { role: 'viewer' }, path, ...inputs } as unknown as Parameters<
    Route['handle']
  >[0]);
}

async function fill(): Promise<void> {
  const { store } = redis;
  const bus = new Bus(() => store);
  const joins = new JoinCalls(bus);
  for (let n = 0; n < COUNT; n++) {
    const token = `client${n}`;
    await store.run('register_client', { token, name: token, keepsName: false, scopes: [] });
    await bus.subscribe(token, { topics: [`topic${n}`], max: 1 });
    await bus.publish(nthWord(n), `topic${n}`, ['{"id":"1"}']);
    const then = { topic: `ready${n}`, type: 'update' } as const;
    await joins.put(`join${n}`, { sources: [{ topic: `source${n}`, count: 1 }], then });
    await putTrigger(store, `trigger${n}`, { topic: `topic${n}` });
    const entry = { maxEntries: 1000, role: 'root', client: undefined, target: undefined, address: '::1' };
    await store.run('record_call', { ...entry, action: 'topic.delete', status: 204, code: undefined });
  }
  // No batch is `ready` any more.
  await bus.acquire(Array.from({ length: COUNT }, (_, n) => `worker${n}`));
  await putDeadLetters(store, 'client0', COUNT);
}

describe('a listing', () => {
  before(async () => {
    const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'root', ROUTEMASTER_REDIS_URL: redis.redis.url });
    const parts = { config, partitions: new Partitions(redis.store), log: capturedLog().log };
    routes = buildApi(parts as unknown as ApiParts).routesIn(DIALECTS.none);
    await fill();
  });

  test('is in the table above, with each parameter by which it is filtered', () => {
    const found = routeTable()
      .filter(isListing)
      .map(({ method, path, query }) => {
        const parameters = Object.keys((query?.schema as z.ZodObject | undefined)?.shape ?? {});
        return [`${method} ${path}`, parameters.filter((each) => !PAGE.includes(each)).sort()];
      });
    const expected = Object.entries(LISTINGS).map(([path, filters]) => [path, Object.keys(filters).sort()]);
    const message = 'LISTINGS has other parameters than the routes';
    assert.deepEqual(Object.fromEntries(found), Object.fromEntries(expected), message);
  });

  for (const [listing, filters] of Object.entries(LISTINGS))
    for (const query of Object.values(filters).filter((each) => each !== undefined))
      test(`costs what it has read and left out: ${listing}?${query}`, async () => {
        const { body, priceInCalls = 0 } = await call(listing.slice('GET '.length), query);
        assert.deepEqual(body, []);
        assert.ok(priceInCalls >= COUNT / ENTRIES_PER_CALL, `${priceInCalls}`);
      });

  for (const path of READ_ALL)
    test(`costs the names that are read for a page: ${path}`, async () => {
      const { body, priceInCalls = 0 } = await call(path, 'limit=1');
      assert.equal((body as unknown[]).length, 1);
      assert.ok(priceInCalls >= COUNT / ENTRIES_PER_CALL, `${priceInCalls}`);
    });

  for (const path of ['/joins/:name', '/triggers/:name'])
    test(`costs the names among which the client is searched: ${path}`, async () => {
      const reason = await call(path, `client=${NOBODY}`, { name: 'none' }).catch((error: unknown) => error);
      assert.ok(reason instanceof BusError && /^(join|trigger)_not_found$/.test(reason.code), `${reason}`);
      assert.ok((reason.priceInCalls ?? 0) >= COUNT / ENTRIES_PER_CALL, `${reason.priceInCalls}`);
    });
});
