import { z } from 'zod';
import { pause } from '../clock.ts';
import { NO_CONTENT, ok } from '../route.ts';

/** Autoscalers watch response times: this is how slow a bus answers that falls behind. */
const SLOW_MS = 1000;

export const HEALTH = z.object({});
export const PONG = z.object({ pong: z.string() });

export interface HealthParts {
  /** Throws StorageUnavailable. */
  pingStore: () => Promise<unknown>;
  /** How many deliveries are due. */
  dueDeliveries: () => Promise<number>;
  scalingThreshold: number;
}

export function healthApi({ pingStore, dueDeliveries, scalingThreshold }: HealthParts) {
  return {
    /** `/health`: is this process up? Asks nobody, so that web processes are not killed because Redis is away. */
    health: async () => ok({}),
    ping: async () => ok({ pong: new Date().toISOString() }),

    /** `/pulse`: does the bus work? */
    async pulse() {
      await pingStore();
      return NO_CONTENT;
    },

    /** `/pulse/scaling`: slow when many deliveries are due. */
    async scaling() {
      if ((await dueDeliveries()) > scalingThreshold) await pause(SLOW_MS);
      return NO_CONTENT;
    },
  };
}
