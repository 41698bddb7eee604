import { routeTable } from '../../harness/route_table.ts';
import type { OpenApiDocument } from '../../src/openapi/openapi.ts';
import type { Compatibility } from '../../src/routing/dialect.ts';
import type { Call } from '../../src/routing/route.ts';

/** Resolves with the answer of a route of the documentation, without a server. */
async function answerOf(
  path: string,
  compatibility?: Compatibility,
  env?: Record<string, string>,
  headers = {},
) {
  const route = routeTable(compatibility, env).find((each) => each.path === path);
  const answer = await route?.handle({ request: { headers } } as Call);
  return { text: String(answer?.body), headers: answer?.headers ?? {} };
}

export async function documentOf(
  compatibility?: Compatibility,
  env?: Record<string, string>,
): Promise<OpenApiDocument> {
  return JSON.parse((await answerOf('/openapi.json', compatibility, env)).text);
}

export const pageOf = (headers = {}, env?: Record<string, string>) =>
  answerOf('/docs', undefined, env, headers);
