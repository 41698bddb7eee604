import { setImmediate as nextTurn } from 'node:timers/promises';
import type { z } from 'zod';
import { RELEASE } from '../release.ts';
import type { Dialect } from '../routing/dialect.ts';
import type { Route } from '../routing/route.ts';
import { Schemas } from './json_schema.ts';
import type { OpenApiDocument, Operation, Response } from './openapi.ts';
import { type Components, operationOf, templateOf } from './operation.ts';
import { PROBLEM, ProblemResponses } from './problems.ts';
import { CHAPTERS } from './texts.ts';
import { webhooks } from './webhooks.ts';

const DESCRIPTION = `An event bus over HTTP: publishers POST events to topics, and the bus delivers them to subscribers in batches.

Bodies and answers are JSON. Errors are problem documents (RFC 9457) with a stable \`code\`. Answers may get more members: ignore those that you do not know.`;

const basic = (description: string) => ({ type: 'http', scheme: 'basic', description });

const SECURITY_SCHEMES = {
  basic: basic(
    'A client: its token and its secret, or its token and anything if it has no secret. Root and viewers: the key, and anything.',
  ),
  digest: {
    type: 'http',
    scheme: 'digest',
    description:
      'RFC 7616, `qop=auth`, SHA-256 or MD5. A client: its token and its secret. Root: `root` and the root key. Viewers: `viewer` and the viewer key.',
  },
  uuid: basic('What a delivery carries: the `uuid` of the subscription, and `x`.'),
};

export interface DocumentOptions {
  /** The schema of the body of a delivery. */
  delivered: z.ZodType;
  forceSsl: boolean;
  dialect: Pick<Dialect, 'redirected'>;
}

/**
 * Makes the OpenAPI 3.1 document of these routes. This takes over 60 ms, so other requests are served after each route.
 * Describing one route takes at most 4 ms. Throws if CHAPTERS has no text for a route.
 */
export async function openApiDocument(
  routes: readonly Route[],
  options: DocumentOptions,
): Promise<OpenApiDocument> {
  const schemas = new Schemas();
  const problems = new ProblemResponses();
  const paths: OpenApiDocument['paths'] = {};
  for (const route of routes) {
    const path = templateOf(route.path);
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = described(route, routes, { schemas, problems }, options);
    await nextTurn();
  }
  const delivering = { name: 'Deliveries', description: 'What the bus sends to subscribers.' };
  const chapters = CHAPTERS.map(({ name, description }) => ({ name, description }));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Routemaster',
      version: RELEASE,
      description: DESCRIPTION,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: [...chapters, delivering],
    paths,
    webhooks: webhooks(options.delivered, schemas),
    components: {
      schemas: { Problem: PROBLEM, ...schemas.components },
      responses: problems.components,
      examples: problems.examples,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function described(
  route: Route,
  routes: readonly Route[],
  components: Components,
  { forceSsl, dialect }: DocumentOptions,
): Operation {
  const same = routes.find(({ method, handle }) => method === route.method && handle === route.handle);
  const operation = operationOf(route, same ?? route, components);
  if (!forceSsl || route.isHealthCheck) return operation;
  const { reads, others } = dialect.redirected;
  const status = route.method === 'GET' ? reads : others;
  return { ...operation, responses: { ...operation.responses, [status]: REDIRECT } };
}

const REDIRECT: Response = {
  description: 'The call came by plain http; it is served over https.',
  headers: { Location: { schema: { type: 'string' } } },
};
