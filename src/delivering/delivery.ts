import { LRUCache } from 'lru-cache';
import type { Dispatcher } from 'undici';
import { clock } from '../clock.ts';
import type { CallbackPolicy } from '../subscribing/callback_policy.ts';
import { type DropNotice, dropNoticeHeader } from '../subscribing/drop_notice.ts';
import type { Batch } from './batch.ts';
import { type ConnectionSettings, callbackConnections } from './delivery_connections.ts';
import { type DeliveryOutcome, Exchange } from './delivery_exchange.ts';
import { batchJson } from './event_json.ts';
import { signatureHeaders } from './signatures.ts';
import type { Subscriber } from './subscriber.ts';

const USER_AGENT = 'routemaster';

const MAX_TARGETS = 10_000;

/** What all deliveries to a callback share. Computing it for each delivery took 5 to 7 % of a worker's CPU with single events. */
interface Target {
  uuid: string;
  origin: string;
  path: string;
  authorization: string;
}

/** POSTs batches to callbacks, over connections that are kept alive for each subscriber. Redirects are not followed. */
export class Delivery {
  /** By callback. */
  readonly #targets = new LRUCache<string, Target>({ max: MAX_TARGETS });
  readonly #connections: Dispatcher;
  readonly #timeoutMs: number;

  constructor(settings: ConnectionSettings, policy: CallbackPolicy) {
    this.#timeoutMs = settings.deliveryTimeoutMs;
    this.#connections = callbackConnections(settings, policy);
  }

  /**
   * Sends the drop notice, if there is one, in a header. Resolves with the outcome within the time limit; an aborted `signal`
   * ends the delivery at once. `atMs` dates the signature: ms, by Redis's clock where that is known. Throws RangeError if an
   * event or the signing secret is unreadable, and TypeError if the callback is not a URL.
   */
  deliver(
    batch: Batch,
    subscriber: Subscriber,
    signal: AbortSignal,
    notice?: DropNotice,
    atMs = clock.wallMs(),
  ): Promise<DeliveryOutcome> {
    const { origin, path, authorization } = this.#target(subscriber);
    const body = batchJson(batch.events, batch.count);
    const request: Dispatcher.DispatchOptions = {
      origin,
      path,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization,
        'user-agent': USER_AGENT,
        'webhook-id': batch.bid,
        'routemaster-attempt': String(batch.attempts),
        ...(notice && { 'routemaster-gap': dropNoticeHeader(notice) }),
        ...(subscriber.signing && signatureHeaders(subscriber.signing, batch.bid, atMs, body)),
      },
      body,
    };
    const exchange = new Exchange(this.#timeoutMs, signal);
    this.#connections.dispatch(request, exchange);
    return exchange.outcome;
  }

  #target({ callback, uuid }: Subscriber): Target {
    const known = this.#targets.get(callback);
    if (known?.uuid === uuid) return known;
    const url = URL.parse(callback);
    // `new URL` would quote the callback in its error, and one taken over from a Ruby Routemaster may contain credentials.
    if (!url) throw new TypeError('the callback is not a URL');
    const target = {
      uuid,
      origin: url.origin,
      path: url.pathname + url.search,
      authorization: `Basic ${Buffer.from(`${uuid}:x`).toString('base64')}`,
    };
    this.#targets.set(callback, target);
    return target;
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    await this.#connections.destroy();
  }
}
