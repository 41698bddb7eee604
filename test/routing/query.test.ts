import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { routeTable } from '../../harness/route_table.ts';
import { BusError } from '../../src/errors.ts';
import { checked } from '../../src/http/validation.ts';
import type { Route } from '../../src/routing/route.ts';
import { readTranscript } from '../http/transcript.ts';

const RECORDED = join(import.meta.dirname, '../compatibility/recorded.txt');

const nameOf = ({ method, path }: Route) => `${method} ${path}`;

/** The detail of the refusal of a query with one unknown parameter; undefined if it is accepted. */
function refusal({ query }: Route, name: string): string | undefined {
  try {
    checked(query, { [name]: '1' });
    return undefined;
  } catch (error) {
    assert.ok(error instanceof BusError);
    assert.deepEqual([error.code, error.members], ['bad_query', { field: name }]);
    return error.message;
  }
}

const refusing = (routes: readonly Route[]) =>
  routes.filter((route) => refusal(route, 'zzz') !== undefined).map(nameOf);

describe('an unknown query parameter is refused', () => {
  const routes = routeTable();
  const find = (call: string) => routes.find((route) => nameOf(route) === call) as Route;

  test('by every call that needs credentials', () => {
    assert.deepEqual(refusing(routes), routes.filter(({ roles }) => roles.length > 0).map(nameOf));
  });

  test('with the known one that it resembles most, if there is one', () => {
    const topics = find('GET /topics');
    assert.equal(
      refusal(topics, 'Limits'),
      'Limits is nothing that can be asked for here; did you mean limit?',
    );
    assert.equal(
      refusal(topics, 'page'),
      'page is nothing that can be asked for here; use limit, after, sort, name',
    );
    assert.match(refusal(find('GET /dead_letters'), 'befor') ?? '', /; did you mean before\?$/);
    assert.match(refusal(find('GET /pulse'), 'limit') ?? '', /; this call takes no parameters$/);
    assert.match(refusal(topics, 'x'.repeat(16_000)) ?? '', /; use limit, after, sort, name$/);
  });

  test('in compatibility mode too, except by the calls of the Ruby Routemaster', () => {
    const inMode = routeTable('routemaster');
    const exchanges = readTranscript(RECORDED).flatMap((section) => section.exchanges);
    const ofRuby = routes.filter(({ method, path }) => {
      const shape = new RegExp(`^${path.replaceAll(/:\w+/g, '[^/?]+')}$`);
      return exchanges.some((each) => each.method === method && shape.test(each.path) && each.status !== 404);
    });
    // The Go client of Routemaster calls DELETE /topic/:name, which Routemaster itself did not have.
    const ignoring = new Set([...ofRuby.map(nameOf), 'DELETE /topic/:name']);
    assert.ok(ignoring.has('GET /topics'));
    assert.deepEqual(
      refusing(inMode),
      refusing(routes).filter((call) => !ignoring.has(call)),
    );
  });
});
