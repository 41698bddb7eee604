import { z } from 'zod';
import type { Config } from '../config.ts';
import { ALL, ANYONE, NO_CONTENT, NOTHING, ok, type Route, route } from '../routing/route.ts';
import type { Partitions } from '../store/partitions.ts';

/**
 * Time that `/pulse/scaling` takes to answer while many deliveries are due. Autoscalers start workers when answers are
 * slow.
 */
const SLOW_ANSWER_MS = 1000;

const HEALTH = z.object({});
const PONG = z.object({ pong: z.string() });

interface HealthParts {
  config: Pick<Config, 'scalingThreshold'>;
  partitions: Partitions;
  dueDeliveries: () => Promise<number>;
}

/** `/health` and `/pulse`: the routes with which hosting platforms and autoscalers check the bus. */
export function healthApi({ config, partitions, dueDeliveries }: HealthParts): Route[] {
  const pinging = {
    isHealthCheck: true,
    answers: { 200: PONG },
    handle: async () => ok({ pong: new Date().toISOString() }),
  } as const;
  return [
    // Succeeds while this process runs, even if Redis is away. Otherwise the platform would kill processes for the
    // fault of Redis.
    route('GET /health', ANYONE, {
      isHealthCheck: true,
      answers: { 200: HEALTH },
      handle: async () => ok({}),
    }),
    route('GET /health/ping', ANYONE, pinging),
    route('GET /health/ping.json', ANYONE, pinging),
    route('GET /pulse', ALL, {
      answers: NOTHING,
      async handle() {
        // Asks only one partition of each Redis, because the others in the same Redis would give the same answer. Each
        // call takes Redis 0.1 ms.
        await Promise.all(partitions.byRedis().map(([one]) => one.expectCommands()));
        return NO_CONTENT;
      },
    }),
    route('GET /pulse/scaling', ALL, {
      answers: NOTHING,
      async handle() {
        const isBusy = (await dueDeliveries()) >= config.scalingThreshold;
        return isBusy ? { ...NO_CONTENT, delayMs: SLOW_ANSWER_MS } : NO_CONTENT;
      },
    }),
  ];
}
