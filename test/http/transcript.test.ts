import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { z } from 'zod';
import { type Answer, Api } from '../../harness/http/api.ts';
import { root } from '../../harness/processes/command.ts';
import { buildApi } from '../../src/api.ts';
import { readConfig } from '../../src/config.ts';
import { DIALECTS } from '../../src/dialect.ts';
import { createLog } from '../../src/log.ts';
import { Counters } from '../../src/metrics/counters.ts';
import { Recorder } from '../../src/metrics/recorder.ts';
import type { Route } from '../../src/route.ts';
import { Partitions } from '../../src/store/partitions.ts';
import { check, type Exchange, readTranscript } from './transcript.ts';

const FOLDER = join(import.meta.dirname, 'transcripts');

// Each section begins with an empty Redis.
const api = new Api({ env: { ROUTEMASTER_SCALING_THRESHOLD: '3' } });
let table: Route[] | undefined;
beforeEach(() => api.reset());

for (const file of readdirSync(FOLDER)) {
  describe(file, () => {
    for (const { title, exchanges } of readTranscript(join(FOLDER, file))) {
      test(title, async () => {
        for (const exchange of exchanges) assertOfTable(exchange, await check(api, exchange));
      });
    }
  });
}

test('docs/api.md lists every route, and no other', () => {
  const text = readFileSync(join(root, 'docs/api.md'), 'utf8');
  const calls = text.split('## Calls')[1]?.split('\n## ')[0] ?? '';
  const documented = [...calls.matchAll(/^\| `([A-Z]+) ([^`]+)`(?:, or `([^`]+)`)?/gm)];
  const listed = documented.flatMap(([, method, path, other]) =>
    [path, other].filter((each) => each !== undefined).map((each) => `${method} ${each}`),
  );
  const ofTable = routes().map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(listed.sort(), ofTable.sort());
});

test('every route that changes something, but publishing, has an action, which docs/api.md names for the audit', () => {
  for (const { method, path, action, isFrequent } of routes())
    assert.equal(action !== undefined, method !== 'GET' && !isFrequent, `${method} ${path}`);
  const text = readFileSync(join(root, 'docs/api.md'), 'utf8');
  const row = /^\| `action` \| (.*) \|$/m.exec(text)?.[1] ?? '';
  const documented = [...row.matchAll(/`([a-z_]+\.[a-z_]+)`/g)].map(([, action]) => action);
  const actions = new Set(routes().flatMap(({ action }) => action ?? []));
  assert.deepEqual(documented.sort(), [...actions].sort());
});

/** The codes of problems that many routes can answer. */
const GENERAL = ['unauthenticated', 'forbidden', 'bad_header', 'bad_body', 'not_found', 'method_not_allowed'];

/** Every answer is one that its row of the table promises, with a body that fits the row's schema. */
function assertOfTable({ line, method, path }: Exchange, { status, headers, text }: Answer): void {
  table ??= routes();
  const row = table.find((each) => each.method === method && pathPattern(each.path).test(path));
  if (status >= 400 && method !== 'HEAD') {
    const { code } = JSON.parse(text);
    assert.ok([...GENERAL, ...(row?.errors ?? [])].includes(code), `${line}: ${code} is in the table`);
  } else if (row) {
    assert.ok(status in row.answers, `${line}: ${status} is in the table`);
    const isJson = headers['content-type']?.startsWith('application/json');
    const body = isJson ? JSON.parse(text) : text;
    const schema = row.answers[status] ?? z.literal('');
    assert.ok(schema.safeParse(body).success, `${line}: fits its schema`);
  }
}

function pathPattern(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}([?]|$)`);
}

function routes(): Route[] {
  const log = createLog('silent', {});
  const partitions = new Partitions(api.store);
  const config = readConfig({ ROUTEMASTER_ROOT_KEY: 'a-root-key', ROUTEMASTER_REDIS_URL: api.redis.url });
  const recorder = new Recorder(new Counters(partitions.control, { flushIntervalMs: 1000, log }));
  return buildApi({ config, partitions, recorder, log }).routesIn(DIALECTS.none);
}
