import express, { type Express, type Router } from 'express';
import type { Log } from '../log.ts';
import { forceSsl, untilReady, wellFormed } from './gate.ts';
import { answerProblems, notFound } from './problems.ts';

export interface AppParts {
  forceSsl: boolean;
  ready: () => boolean;
  /** Answers though the storage is not ready. */
  health: Router;
  resources: Router[];
  log: Log;
}

/** The HTTP API: the gate, the resources, and one place that answers errors. */
export function createApp(parts: AppParts): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('strict routing');
  app.enable('case sensitive routing');
  app.use(wellFormed);
  // Whoever asks for health stands beside us, and speaks plain http.
  app.use(parts.health);
  if (parts.forceSsl) app.use(forceSsl);
  app.use(untilReady(parts.ready));
  for (const resource of parts.resources) app.use(resource);
  app.use(notFound);
  app.use(answerProblems(parts.log));
  return app;
}
