import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { root } from '../../harness/processes/command.ts';
import { routeTable } from '../../harness/route_table.ts';
import type { Content, JsonSchema, OpenApiDocument, Operation } from '../../src/openapi/openapi.ts';
import { documentOf } from './document.ts';

const operationsOf = ({ paths }: OpenApiDocument): Operation[] =>
  Object.values(paths).flatMap((methods) => Object.values(methods));

/** Every object in the document. */
function* parts(value: unknown): Generator<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield value as Record<string, unknown>;
  for (const each of Object.values(value)) yield* parts(each);
}

/** The answer of Redocly. `pointer` leads to a place in the document. */
interface Lint {
  totals: { errors: number; warnings: number };
  problems: { message: string; location: { pointer: string }[] }[];
}

for (const compatibility of ['none', 'routemaster'] as const) {
  describe(`the document of a bus in mode ${compatibility}`, async () => {
    const document = await documentOf(compatibility, { FORCE_SSL: 'yes' });
    const operations = operationsOf(document);

    test('passes the lint of Redocly without a warning', async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'routemaster-openapi-'));
      t.after(() => rmSync(folder, { recursive: true }));
      const file = join(folder, 'openapi.json');
      writeFileSync(file, JSON.stringify(document));
      const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
      const redocly = join(root, 'node_modules/.bin/redocly');
      const { stdout, stderr } = await promisify(execFile)(redocly, ['lint', '--format=json', file], {
        ...{ env, cwd: folder },
      });
      const { totals, problems } = JSON.parse(stdout) as Lint;
      const said = problems.map(({ message, location }) => `${location[0]?.pointer}: ${message}`);
      const why = [...said, 'The examples stand in src/openapi/*_texts.ts.', stderr].join('\n');
      assert.deepEqual([totals.errors, totals.warnings], [0, 0], why);
    });

    test('has every route once, with a summary and a chapter that the document has', () => {
      const routes = routeTable(compatibility);
      assert.equal(operations.length, routes.length);
      assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, routes.length);
      const chapters = document.tags.map(({ name }) => name);
      for (const { operationId, summary, tags } of operations) {
        assert.ok(summary.length > 5 && !summary.endsWith('.'), operationId);
        assert.ok(chapters.includes(tags[0] ?? ''), operationId);
      }
    });

    test('refers to what it has', () => {
      for (const { $ref } of parts(document)) {
        if (typeof $ref !== 'string') continue;
        let found: unknown = document;
        for (const name of $ref.slice('#/'.length).split('/'))
          found = (found as Record<string, unknown>)?.[name];
        assert.ok(found, $ref);
      }
    });

    test('has an example for every body, which fits', () => {
      const ajv = new Ajv2020({ strict: false, allowUnionTypes: true });
      ajv.addSchema({ $id: 'bus', components: document.components });
      const fits = (name: string, { schema, example }: Content) => {
        const text = JSON.stringify(schema).replaceAll('"#/components/', '"bus#/components/');
        assert.notEqual(example, undefined, `${name} has an example`);
        assert.ok(
          ajv.validate(JSON.parse(text), example),
          `the example of ${name}, in src/openapi/: ${ajv.errorsText()}`,
        );
      };
      for (const { operationId, requestBody, responses } of operations) {
        for (const content of Object.values(requestBody?.content ?? {})) fits(operationId, content);
        for (const [status, response] of Object.entries(responses))
          for (const content of Object.values(response.content ?? {}))
            fits(`${operationId} ${status}`, content);
      }
      const { post } = document.webhooks.delivery;
      for (const content of Object.values(post.requestBody?.content ?? {})) fits('delivery', content);
    });

    test('has patterns that mean the same without the flag u, as in Python or Go', () => {
      const patterns = [...JSON.stringify(document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)];
      assert.ok(patterns.length > 10);
      const advice =
        'src/openapi/json_schema.ts replaces \\p{Cc} alone; write [^\\p{Cc}] in place of \\P{Cc}';
      for (const [, pattern = ''] of patterns) {
        const text = JSON.parse(pattern);
        assert.doesNotMatch(text, /\\[pPu]|\\x\{/, `${text}: ${advice}`);
      }
      const { url } = document.components.schemas.Event?.properties ?? {};
      const accepts = new RegExp(url?.pattern ?? '');
      assert.ok(accepts.test('https://example.com/products/pCc'));
      for (const control of ['\0', '\x1f', '\x7f', '\x9f', ' '])
        assert.ok(!accepts.test(`https://example.com/${control}`));
    });

    test('says of every parameter and of every field of a request what it means', () => {
      for (const { operationId, parameters = [], requestBody } of operations) {
        for (const { name, description } of parameters) {
          const explainsItself = ['queue', 'state'].includes(name);
          assert.ok(description || explainsItself, `${operationId} ${name}`);
        }
        const schema = requestBody?.content['application/json']?.schema;
        for (const [name, each] of Object.entries(schema?.properties ?? ({} as Record<string, JsonSchema>)))
          assert.ok(each.description, `${operationId} ${name}`);
      }
    });

    test('says who may call what, and that nobody needs credentials for the rest', () => {
      for (const { operationId, security, responses, 'x-roles': roles } of operations) {
        assert.equal(security.length > 0, roles.length > 0, operationId);
        assert.equal('401' in responses, roles.length > 0, operationId);
      }
    });

    test('says that plain http is redirected', () => {
      const { getTopics, postTopicsName, getHealth } = Object.fromEntries(
        operations.map((each) => [each.operationId, each.responses]),
      );
      const [reads, others] = compatibility === 'none' ? [308, 308] : [301, 307];
      assert.ok(getTopics?.[reads] && postTopicsName?.[others] && !getHealth?.[reads]);
    });
  });
}

test('without FORCE_SSL nothing is redirected', async () => {
  for (const { responses } of operationsOf(await documentOf()))
    assert.deepEqual(
      Object.keys(responses).filter((status) => /^3/.test(status)),
      [],
    );
});
