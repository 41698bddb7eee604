import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { root } from '../../harness/processes/command.ts';
import { pageTable, routeTable } from '../../harness/route_table.ts';
import type { JsonSchema, OpenApiDocument } from '../../src/openapi/openapi.ts';
import { CHAPTERS } from '../../src/openapi/texts.ts';
import { ACTIONS } from '../../src/routing/actions.ts';
import { documentOf } from './document.ts';

const TEXT = readFileSync(join(root, 'docs/api.md'), 'utf8');
const routes = routeTable();
const document: OpenApiDocument = await documentOf();

/** Returns the cells of the first table under a heading, without its head. */
function rows(heading: string): string[][] {
  const section = TEXT.split(new RegExp(`^#+ ${heading}$`, 'm'))[1]?.split(/^#+ /m)[0] ?? '';
  const table = /(?:^\|.*\n)+/m.exec(section)?.[0] ?? '';
  return table
    .trim()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim())
        .slice(1, -1),
    );
}

/** Returns the names in the first cells of a table, such as `at` and `id` of "`id`, `at`". */
const names = (heading: string) =>
  rows(heading).flatMap(([cell = '']) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name ?? ''));

const fields = ({ properties = {} }: JsonSchema = {}) => Object.keys(properties).sort();
const { schemas } = document.components;

/** Returns the schema itself in place of a reference to it. */
function resolved(schema: JsonSchema = {}): JsonSchema {
  return (schema.$ref && schemas[schema.$ref.split('/').at(-1) ?? '']) || schema;
}

describe('the tables of docs/api.md have', () => {
  const calls = rows('Calls').flatMap(([call = '', who = '', answers = '']) => {
    const [, method = '', path, other] = /^`([A-Z]+) ([^`]+)`(?:, or `([^`]+)`)?/.exec(call) ?? [];
    const paths = [path, other].filter((each) => each !== undefined);
    return paths.map((each) => ({ call: `${method} ${each}`, who, answers }));
  });
  const find = (call: string) => calls.find((each) => each.call === call);

  test('every route, and no other', () => {
    const ofTable = routes.map(({ method, path }) => `${method} ${path}`);
    assert.deepEqual(calls.map(({ call }) => call).sort(), ofTable.sort());
  });

  test('who may call it', () => {
    for (const { method, path, roles } of routes) {
      const { who = '' } = find(`${method} ${path}`) ?? {};
      const found = [
        ...(/\b(client|its publisher|its subscriber|the subscriber)\b/.test(who) ? ['client'] : []),
        ...['root', 'viewer'].filter((role) => new RegExp(`\\b${role}\\b`).test(who)),
      ];
      assert.deepEqual(found, [...roles], `${method} ${path}`);
      assert.equal(who === 'anyone', roles.length === 0);
    }
  });

  test('what it answers', () => {
    for (const { method, path, answers } of routes) {
      const found = find(`${method} ${path}`)?.answers ?? '';
      for (const status of Object.keys(answers))
        assert.ok(found.includes(status), `${method} ${path}: ${status}`);
    }
  });

  test('the members of the answers that they list: all that are always there, and no unknown one', () => {
    const named = calls.flatMap(({ call, answers }) => {
      const [, status = '', list = ''] = /(\d+) `\[?\{("\w+"(?:,"\w+")*)\}/.exec(answers) ?? [];
      return status === '' ? [] : [{ call, status, members: list.replaceAll('"', '').split(',') }];
    });
    assert.ok(named.length > 10, 'they are found in the table');
    for (const { call, status, members } of named) {
      const [method = '', path = ''] = call.split(' ');
      const operation = document.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()];
      const answer = resolved(operation?.responses[status]?.content?.['application/json']?.schema);
      const { required = [], properties = {} } = resolved(answer.items ?? answer);
      const [missing, unknown] = [
        required.filter((each) => !members.includes(each)),
        members.filter((each) => !(each in properties)),
      ];
      assert.deepEqual({ missing, unknown }, { missing: [], unknown: [] }, call);
    }
  });

  test('the fields of an event, of a subscription, a subscriber, a delivery, an entry of the audit, and a job', () => {
    const subscription =
      document.paths['/subscription']?.post?.requestBody?.content['application/json']?.schema;
    for (const [heading, schema] of [
      ['Publish', schemas.Event],
      ['Subscribe', subscription],
      ['Look', schemas.Subscriber],
      ['Deliveries', schemas.Delivery],
      ['Audit', schemas.AuditEntry],
      ['Jobs', schemas.Job],
    ] as const)
      assert.deepEqual(
        names(heading)
          .filter((name) => name in (schema?.properties ?? {}))
          .sort(),
        fields(schema),
        `the table below ${heading} in docs/api.md has other fields than the schema`,
      );
  });

  test('every action of the audit, which all routes have that change something, but for publishing', () => {
    for (const { method, path, action, isFrequent } of routes)
      assert.equal(action !== undefined, method !== 'GET' && !isFrequent, `${method} ${path}`);
    const row = /^\| `action` \| (.*) \|$/m.exec(TEXT)?.[1] ?? '';
    const documented = [...row.matchAll(/`([a-z_]+\.[a-z_]+)`/g)].map(([, action]) => action);
    const actions = new Set([...routes, ...pageTable()].flatMap(({ action }) => action ?? []));
    assert.deepEqual(documented.sort(), [...actions].sort());
    assert.deepEqual([...ACTIONS].sort(), [...actions].sort());
  });
});

test('src/openapi/texts.ts says something about every route, and about no other', () => {
  // An alias has the text of the first route with its handler.
  const firsts = routes.filter((route) => route === routes.find(({ handle }) => handle === route.handle));
  const described = CHAPTERS.flatMap(({ texts }) => Object.keys(texts));
  assert.deepEqual(described.sort(), firsts.map(({ method, path }) => `${method} ${path}`).sort());
});
