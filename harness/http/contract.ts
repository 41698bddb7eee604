import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { ErrorCode } from '../../src/errors.ts';
import type { JsonSchema, OpenApiDocument, Operation, Response } from '../../src/openapi/openapi.ts';

interface Answered {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** Codes of errors with which the bus may answer a request that the document does not describe. */
const TO_NO_CALL: readonly ErrorCode[] = [
  ...(['not_found', 'method_not_allowed', 'bad_header', 'forbidden', 'rate_limited'] as const),
  ...([
    'headers_too_large',
    'request_timeout',
    'unsupported_transfer_coding',
    'storage_unavailable',
  ] as const),
];

const PROBLEM = 'application/problem+json';

/** Checks answers against the OpenAPI document of the bus. */
export class Contract {
  readonly document: OpenApiDocument;
  // `test/openapi/document.test.ts` validates the schemas once. Here that would take 50 ms in each test file.
  readonly #ajv = new Ajv2020({
    ...{ strict: false, allowUnionTypes: true },
    ...{ validateSchema: false, code: { optimize: false } },
  });
  readonly #patterns: { template: string; pattern: RegExp }[];
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenApiDocument) {
    this.document = document;
    // A member that the document does not name is a fault here, though callers must ignore it.
    this.#ajv.addSchema({ $id: 'bus', components: closed(document.components as JsonSchema) });
    const templates = Object.keys(document.paths).sort((a, b) => a.split('{').length - b.split('{').length);
    this.#patterns = templates.map((template) => ({
      template,
      pattern: new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    }));
  }

  /** The operation that a request is for; undefined if there is none. */
  operationOf(method: string, target: string): Operation | undefined {
    const [path = ''] = target.split('?');
    const named = method === 'HEAD' ? 'get' : method.toLowerCase();
    // The first template that fits has the fewest parameters, as the templates are sorted.
    const fitting = this.#patterns.find(({ pattern }) => pattern.test(path));
    return fitting && this.document.paths[fitting.template]?.[named];
  }

  /** Throws if the document does not promise this answer. Answers of the console are not checked. */
  check(method: string, target: string, answer: Answered): void {
    if (/^\/console(\/|$)/.test(target) || answer.status === 417) return;
    const operation = this.operationOf(method, target);
    const what = `${method} ${target.slice(0, 100)} → ${answer.status} ${answer.text.slice(0, 300)}`;
    if (!operation) {
      checkNoCall(answer, method, what);
      return;
    }
    const response = this.#resolved(operation.responses[answer.status]);
    assert.ok(response, `${what}: the status is described`);
    for (const [name, { schema }] of Object.entries(response.headers ?? {}))
      if (schema.type === 'integer' && answer.headers[name.toLowerCase()] !== undefined)
        assert.match(String(answer.headers[name.toLowerCase()]), /^\d+$/, `${what}: ${name}`);
    if (method !== 'HEAD')
      this.#checkBody(`${operation.operationId} ${answer.status}`, response, answer, what);
  }

  #checkBody(key: string, { content }: Response, { headers, text }: Answered, what: string): void {
    if (!content) {
      assert.equal(text, '', `${what}: there is no body`);
      return;
    }
    const [type = ''] = String(headers['content-type']).split(';');
    const described = content[type];
    assert.ok(described, `${what}: ${type} is described`);
    if (!/json$/.test(type)) return;
    let validate = this.#validators.get(key);
    if (!validate) {
      validate = this.#ajv.compile(referring(closed(described.schema)));
      this.#validators.set(key, validate);
    }
    const found = validate(JSON.parse(text)) ? '' : this.#ajv.errorsText(validate.errors);
    assert.equal(found, '', what);
  }

  #resolved(response: Response | undefined): Response | undefined {
    const name = response?.$ref?.split('/').at(-1);
    return name === undefined ? response : this.document.components.responses[name];
  }
}

function checkNoCall({ status, headers, text }: Answered, method: string, what: string): void {
  if (headers.location !== undefined && status < 400) return;
  assert.equal(headers['content-type'], PROBLEM, what);
  if (method !== 'HEAD') assert.ok(TO_NO_CALL.includes(JSON.parse(text).code), what);
}

/** Returns a copy of the schema that allows no members other than those that it names. */
function closed(schema: JsonSchema): JsonSchema {
  if (Array.isArray(schema)) return schema.map(closed) as unknown as JsonSchema;
  if (typeof schema !== 'object' || schema === null) return schema;
  const parts = Object.entries(schema).map(([key, value]) => [key, closed(value as JsonSchema)]);
  const isOpen = schema.type === 'object' && schema.properties && schema.additionalProperties === undefined;
  return { ...Object.fromEntries(parts), ...(isOpen && { additionalProperties: false }) };
}

function referring(schema: JsonSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"bus#/components/'));
}
