import { fastifyPlugin, fetchHandler, nodeListener } from './adapters.ts';
import { Deliveries, type ReceiverOptions } from './receiver.ts';

export {
  type ClaimOptions,
  type DeliveryStore,
  type DeliveryStoreOptions,
  MemoryStore,
  RedisStore,
  type SendCommand,
} from './delivery_store.ts';
export { DirtyMap, type DirtyStore, MemoryDirtyStore, RedisDirtyStore } from './dirty_map.ts';
export type { Delivery, DropNotice, ReceivedEvent } from './event.ts';
export { MemoryNewestStore, type NewestStore, onlyNewest, RedisNewestStore } from './newest.ts';
export { EventsFailed, type Handled, type Handler, type Handlers, type ReceiverOptions } from './receiver.ts';

/** The ways to mount a receiver. All check, handle and answer deliveries in the same way. */
export interface Receiver {
  /** For `app.post(path, receiver.express())`, before `express.json()`. */
  express(): ReturnType<typeof nodeListener>;
  /** For `createServer(receiver.node())`. */
  node(): ReturnType<typeof nodeListener>;
  /** For `app.register(receiver.fastify(), { prefix: '/events' })`. */
  fastify(): ReturnType<typeof fastifyPlugin>;
  /** From a Request to a Response: for Hono, Deno, Bun and others. */
  fetch: ReturnType<typeof fetchHandler>;
}

/**
 * Makes a receiver of deliveries. `Topics` gives the type of `data` by topic, as in
 * `createReceiver<{ orders: Order }>(…)`. Throws TypeError if the options cannot work.
 */
export function createReceiver<Topics = Record<string, unknown>>(
  options: ReceiverOptions<NoInfer<Topics>>,
): Receiver {
  // Events are what the publisher says they are; nothing checks their data against `Topics`.
  const deliveries = new Deliveries(options as unknown as ReceiverOptions);
  const listener = nodeListener(deliveries);
  return {
    express: () => listener,
    node: () => listener,
    fastify: () => fastifyPlugin(deliveries),
    fetch: fetchHandler(deliveries),
  };
}
