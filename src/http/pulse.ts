import { Router } from 'express';
import type { Authentication } from '../authentication/authentication.ts';
import { pause } from '../clock.ts';
import type { Queue } from '../delivering/queue.ts';
import type { Store } from '../store/store.ts';
import { onlyMethods } from './problems.ts';

const SLOW_MS = 1000;

export interface PulseParts {
  authentication: Authentication;
  store: Store;
  main: Queue;
  scalingThreshold: number;
  scalingDeadlineMs: number;
}

/** `/pulse`: does the bus work? `/pulse/scaling`: slow when many deliveries are due; autoscalers watch response times. */
export function pulseApi({
  authentication,
  store,
  main,
  scalingThreshold,
  scalingDeadlineMs,
}: PulseParts): Router {
  const router = Router({ strict: true, caseSensitive: true });
  const either = authentication.require('client', 'root');
  router
    .route('/pulse')
    .get(either, async (_request, response) => {
      await store.command((redis) => redis.ping());
      response.writeHead(204).end();
    })
    .all(onlyMethods('GET'));
  router
    .route('/pulse/scaling')
    .get(either, async (_request, response) => {
      if ((await main.due(scalingDeadlineMs)) > scalingThreshold) await pause(SLOW_MS);
      response.writeHead(204).end();
    })
    .all(onlyMethods('GET'));
  return router;
}

/** `/health`: is this process up? Asks nobody, so that Redis being away does not get web processes killed. */
export function healthApi(): Router {
  const router = Router({ strict: true, caseSensitive: true });
  router
    .route('/health')
    .get((_request, response) => void response.json({}))
    .all(onlyMethods('GET'));
  router
    .route(['/health/ping', '/health/ping.json'])
    .get((_request, response) => void response.json({ pong: new Date().toISOString() }))
    .all(onlyMethods('GET'));
  return router;
}
