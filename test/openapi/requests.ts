import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Answer, Api } from '../../harness/http/api.ts';
import { type Known, requestsFor, type WantedRequest } from './arbitrary.ts';

/** Refusals of requests that the schema permits: their rules are only in the texts of the document. */
const UNSAID: readonly { code: string; field?: string }[] = [
  // Refused: numbers that are too large to be kept, and lone surrogates.
  { code: 'bad_body' },
  { code: 'bad_callback' },
  // Refused: reserved tokens, tokens that are too short or have no valid form, and names that are too long for a
  // token.
  { code: 'bad_client' },
  // Refused: a cursor of another listing, a subscriber that only root may name, a source that is named twice, and a
  // circle of joins.
  { code: 'bad_join' },
  // Refused: both `at` and `delay`.
  { code: 'bad_event', field: 'delay' },
  { code: 'bad_query', field: 'after' },
  { code: 'bad_query', field: 'client' },
  { code: 'bad_query', field: 'join' },
  { code: 'bad_query', field: 'metric' },
  { code: 'bad_query', field: 'cursor' },
  { code: 'bad_query', field: 'subscriber' },
  // Refused: a text that is no cron expression, time zone or URL, and a schedule without a further time.
  { code: 'bad_trigger' },
  { code: 'bad_subscription', field: 'signing_secret' },
];

const CALLERS = ['root', 'viewer', 'pub', 'sub', 'sub', 'pub', undefined];

/**
 * Checks that for any request the document describes the answer, which is never 5xx. Resolves with counts by status.
 */
export async function checkRequests(api: Api, count: number, seed: number): Promise<Record<string, number>> {
  const { contract } = api;
  const known = await prepared(api);
  const operations = Object.entries(contract.document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      requestsFor(method, path, operation, contract.document, known),
    ),
  );
  const statuses: Record<string, number> = {};
  const property = fc.asyncProperty(
    fc.oneof(...operations),
    fc.constantFrom(...CALLERS),
    async (request, as) => {
      const answer = await ask(api, request, as);
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
      assertAnswered(request, answer);
    },
  );
  await fc.assert(property, { numRuns: count, seed });
  return statuses;
}

async function ask(
  api: Api,
  { method, path, headers, body }: WantedRequest,
  as: string | undefined,
): Promise<Answer> {
  const answer = await api.call(method, path, {
    ...{ headers },
    ...(as !== undefined && { as }),
    ...(body !== undefined && { body }),
  });
  // A call may have removed the client: the next one makes it again.
  if (answer.status === 401 && as !== undefined) api.forget(as);
  return answer;
}

function assertAnswered(request: WantedRequest, { status, text }: Answer): void {
  const what = `${JSON.stringify(request)} → ${status} ${text.slice(0, 300)}`;
  assert.ok(status < 500, what);
  if (status !== 400 || !request.isValid) return;
  const { code, field } = JSON.parse(text);
  assert.ok(
    UNSAID.some((each) => each.code === code && (each.field === undefined || each.field === field)),
    what,
  );
}

/** Makes a publisher, a subscriber, a dead letter and jobs. Resolves with their names, which requests may use. */
async function prepared(api: Api): Promise<Known> {
  const tokens = [await api.token('pub'), await api.token('sub')];
  const call = async (as: string, path: string, body: object) => {
    const { status, text } = await api.call('POST', path, { as, body: JSON.stringify(body) });
    assert.ok(status < 300, text);
  };
  for (const timeout of [0, 3_600_000]) {
    await call('sub', '/subscription', {
      topics: ['widgets'],
      callback: 'https://203.0.113.9/',
      max: 1,
      timeout,
    });
    await call('pub', '/topics/widgets', { type: 'noop', url: 'https://a.example/1' });
  }
  const ids = (await api.call('GET', '/jobs', { as: 'root' })).text;
  const jobs = JSON.parse(ids).map(({ id }: { id: string }) => id);
  return {
    token: tokens,
    subscriber: tokens,
    client: tokens,
    id: jobs,
    name: ['widgets', 'gadgets'],
    limit: ['1', '2'],
  };
}
