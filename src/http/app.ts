import type { IncomingMessage, RequestListener } from 'node:http';
import express, { type NextFunction, type Request, type Response } from 'express';
import { BusError } from '../errors.ts';
import { acceptsHtml } from '../html.ts';
import type { Dialect } from '../routing/dialect.ts';
import { type Call, type Route, route } from '../routing/route.ts';
import { TOPIC_NAME } from '../routing/topic_name.ts';
import { nearPath } from './near_path.ts';
import { Pipeline, type PipelineParts } from './pipeline.ts';

const TOPICS = '/topics/';
const CONSOLE = '/console';
const PUBLISH = { method: 'POST', path: `${TOPICS}:name` };

/**
 * The HTTP API. Express would add a fifth to the CPU time of a publish, so a publish goes past Express if its path
 * needs no decoding.
 */
export function createApp(routes: readonly Route[], parts: PipelineParts): RequestListener {
  const pipeline = new Pipeline(parts);
  const app = mount(routes, pipeline, parts.dialect.otherMethod);
  const publish = routes.find(({ method, path }) => method === PUBLISH.method && path === PUBLISH.path);
  return (request, response) => {
    const name = publish && plainTopic(request);
    if (name === undefined) return app(request, response);
    const path = request.url ?? '';
    void pipeline.answer(publish as Route, { request, response, path, params: { name }, query: {} });
  };
}

/** Returns the topic of a publish whose path needs no decoding. Returns undefined for any other request. */
function plainTopic({ method, url }: IncomingMessage): string | undefined {
  if (method !== PUBLISH.method || !url?.startsWith(TOPICS)) return undefined;
  const topic = url.slice(TOPICS.length);
  return TOPIC_NAME.test(topic) ? topic : undefined;
}

function mount(routes: readonly Route[], pipeline: Pipeline, otherMethod: OtherMethod): RequestListener {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('strict routing');
  app.enable('case sensitive routing');
  const answer = (row: Route, request: Request, response: Response) => {
    const { path, params, query } = request;
    return pipeline.answer(row, { request, response, path, params, query });
  };
  const errorPage = routes.find(({ path }) => path === CONSOLE)?.page;
  const refuse = (row: Route, request: Request, response: Response) =>
    answer(errorPage && wantsPage(request) ? { ...row, page: errorPage } : row, request, response);
  for (const [path, rows] of Map.groupBy(routes, (row) => row.path)) {
    // The path of a page may also end in a slash, because people type such addresses.
    const here = app.route(rows.some(({ page }) => page) ? `${path}{/}` : path);
    for (const row of rows) here[METHODS[row.method]]((request, response) => answer(row, request, response));
    const wrongMethod = otherMethods(rows, routes, otherMethod);
    here.all((request, response) => refuse(wrongMethod, request, response));
  }
  const unknown = notFound(routes);
  app.use((request, response) => refuse(unknown, request, response));
  // Answers errors of Express itself, such as a path that cannot be decoded. Express recognizes an error handler by its
  // four parameters.
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const failed = refusing(() => error);
    return refuse(failed, request, response);
  });
  // Express finds no path in a target that is no URL, such as `http://[`. It then calls the function that is passed to
  // `app` here.
  return (request, response) =>
    app(request as Request, response as Response, () => {
      const path = request.url ?? '';
      void pipeline.answer(unknown, { request, response, path, params: {}, query: {} });
    });
}

type OtherMethod = Dialect['otherMethod'];

const METHODS = { GET: 'get', POST: 'post', PUT: 'put', DELETE: 'delete' } as const;

function wantsPage({ path, headers }: Pick<Call, 'path' | 'headers'>): boolean {
  return (path === CONSOLE || path.startsWith(`${CONSOLE}/`)) && acceptsHtml(headers.accept);
}

function refusing(reason: (call: Call) => unknown): Route {
  const handle = (call: Call) => Promise.reject(reason(call));
  return { ...route('GET /', [], { answers: {}, handle }), isUnknown: true };
}

function notFound(routes: readonly Route[]): Route {
  return refusing((call) => {
    const advice = hint(routes, call) ?? (wantsPage(call) ? undefined : 'see /docs for what there is');
    return new BusError('not_found', [`there is no ${call.path}`, advice].filter(Boolean).join('; '));
  });
}

/**
 * Returns the route that refuses requests to an existing path with a method that the path does not have. `rows` are the
 * routes of this path. The error lists the methods of these routes, and also HEAD if there is a GET, because Express
 * answers HEAD by the route for GET.
 */
function otherMethods(rows: readonly Route[], routes: readonly Route[], code: OtherMethod): Route {
  const allow = rows.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  const refusal = refusing((call) => {
    const said = [`${call.path} takes ${allow}`, hint(routes, call)].filter(Boolean).join('; ');
    return new BusError(code, said, { headers: { Allow: allow } });
  });
  return { ...refusal, ...(rows.some(({ isHealthCheck }) => isHealthCheck) && { isHealthCheck: true }) };
}

function hint(routes: readonly Route[], call: Call): string | undefined {
  const { method = '' } = call.request;
  // In many other APIs, a POST makes what is made by a PUT here.
  for (const each of method === 'POST' ? ['POST', 'PUT'] : [method]) {
    const near = nearPath(routes, each, call.path);
    if (near === undefined || near === call.path) continue;
    return `did you mean ${wantsPage(call) ? near : `${each} ${near}`}?`;
  }
  return undefined;
}
