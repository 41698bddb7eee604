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

/** A receiver of deliveries, with a method for each way to mount it in a server. */
export interface Receiver {
  /**
   * A handler for `app.post(path, receiver.express())`. This line must come before `express.json()`, because signatures
   * cover the unparsed body.
   */
  express(): ReturnType<typeof nodeListener>;
  /** A listener for `createServer(receiver.node())`. */
  node(): ReturnType<typeof nodeListener>;
  /** A plugin for `app.register(receiver.fastify(), { prefix: '/events' })`. */
  fastify(): ReturnType<typeof fastifyPlugin>;
  /** A function that takes a Request and resolves with a Response, for Hono, Deno, Bun and others. */
  fetch: ReturnType<typeof fetchHandler>;
}

/**
 * Makes a receiver of deliveries. `Topics` gives the type of an event's `data` by topic:
 * `createReceiver<{ orders: Order }>(…)`. Throws TypeError if the options are not valid.
 */
export function createReceiver<Topics = Record<string, unknown>>(
  options: ReceiverOptions<NoInfer<Topics>>,
): Receiver {
  // The cast is for the compiler: the handlers take data of the types in `Topics`, but `Deliveries` passes data of the
  // type `unknown`. Nothing checks whether the data of an event has the type that `Topics` says.
  const deliveries = new Deliveries(options as unknown as ReceiverOptions);
  const listener = nodeListener(deliveries);
  // Compilers accept `createServer(receiver.node)`, without the parentheses of `node()`. The server would then call
  // `node` for each request, only to get a listener, and no delivery would ever be answered.
  const mount = (name: string, given: unknown[]) => {
    if (given.length > 0) throw new TypeError(`write receiver.${name}(), with its parentheses`);
    return listener;
  };
  return {
    express: (...given: unknown[]) => mount('express', given),
    node: (...given: unknown[]) => mount('node', given),
    fastify: () => fastifyPlugin(deliveries),
    fetch: fetchHandler(deliveries),
  };
}
