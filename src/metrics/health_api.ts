import { z } from 'zod';
import { sleep } from '../clock.ts';
import { NO_CONTENT, ok } from '../route.ts';

/** Response time of `/pulse/scaling` while deliveries fall behind. Autoscalers watch response times. */
const SLOW_MS = 1000;

export const HEALTH = z.object({});
export const PONG = z.object({ pong: z.string() });

interface HealthParts {
  /** Throws StorageUnavailable. */
  pingStore: () => Promise<unknown>;
  dueDeliveries: () => Promise<number>;
  scalingThreshold: number;
}

export function healthApi({ pingStore, dueDeliveries, scalingThreshold }: HealthParts) {
  return {
    /** `/health`: succeeds while this process runs, even without Redis, so that nobody kills it then. */
    health: async () => ok({}),
    ping: async () => ok({ pong: new Date().toISOString() }),

    /** `/pulse`: succeeds only if Redis answers. */
    async pulse() {
      await pingStore();
      return NO_CONTENT;
    },

    /** `/pulse/scaling`: answers slowly when many deliveries are due. */
    async scaling() {
      if ((await dueDeliveries()) >= scalingThreshold) await sleep(SLOW_MS);
      return NO_CONTENT;
    },
  };
}
