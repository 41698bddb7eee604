import type { RequestListener } from 'node:http';
import express, { type Express, type Router } from 'express';
import type { Log } from '../log.ts';
import { type Publishing, plainTopic } from '../publishing/publish_route.ts';
import { browserHeaders } from './browser_headers.ts';
import { forceSsl, untilReady, wellFormed } from './gate.ts';
import { answerProblem, answerProblems, notFound } from './problems.ts';
import type { Proxies } from './proxies.ts';

export interface AppParts {
  forceSsl: boolean;
  proxies: Proxies;
  ready: () => boolean;
  /** Answers though the storage is not ready. */
  health: Router;
  resources: Router[];
  publishing: Publishing;
  log: Log;
}

/**
 * The HTTP API: the gate, the resources, and one place that answers errors. A plain publish goes straight to where the
 * route of Express would bring it.
 */
export function createApp(parts: AppParts): RequestListener {
  const app = general(parts);
  const { publishing, ready, log } = parts;
  return (request, response) => {
    const topic = plainTopic(request);
    if (topic === undefined || !ready() || (parts.forceSsl && !parts.proxies.cameByHttps(request)))
      return app(request, response);
    const fail = (error: unknown) => answerProblem(log, error, request, response);
    try {
      publishing.take(request, response, topic, fail);
    } catch (error) {
      fail(error);
    }
  };
}

function general(parts: AppParts): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('strict routing');
  app.enable('case sensitive routing');
  app.use(browserHeaders(parts));
  app.use(wellFormed);
  // Whoever asks for health stands beside us, and speaks plain http.
  app.use(parts.health);
  if (parts.forceSsl) app.use(forceSsl(parts.proxies));
  app.use(untilReady(parts.ready));
  for (const resource of parts.resources) app.use(resource);
  app.use(notFound);
  app.use(answerProblems(parts.log));
  return app;
}
