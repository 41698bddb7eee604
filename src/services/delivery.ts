import { Agent, buildConnector, type Dispatcher } from 'undici';
import type { Batch } from '../models/batch.ts';
import { batchJson } from '../models/event_json.ts';
import type { Subscriber } from '../models/subscriber.ts';
import type { CallbackPolicy } from './callback_policy.ts';
import { Exchange, type Outcome } from './delivery_exchange.ts';

const USER_AGENT = 'routemaster';

export interface DeliverySettings {
  /** From the start of a delivery to the end of its answer. */
  deliveryTimeoutMs: number;
  connectTimeoutMs: number;
  sslVerify: boolean;
}

/** POSTs batches to callbacks, over connections that are kept alive for each subscriber. Redirects are not followed. */
export class Delivery {
  readonly #agent: Agent;
  readonly #timeoutMs: number;

  constructor(settings: DeliverySettings, policy: CallbackPolicy) {
    this.#timeoutMs = settings.deliveryTimeoutMs;
    this.#agent = new Agent({
      connect: connector(settings, policy),
      headersTimeout: settings.deliveryTimeoutMs,
      bodyTimeout: settings.deliveryTimeoutMs,
    });
  }

  /**
   * Resolves with the outcome, within the time limit; an aborted `signal` ends it at once.
   * Throws RangeError if the batch holds something that is no event, TypeError if the callback is no URL.
   */
  deliver(batch: Batch, subscriber: Subscriber, signal: AbortSignal): Promise<Outcome> {
    const callback = new URL(subscriber.callback);
    const request: Dispatcher.DispatchOptions = {
      origin: callback.origin,
      path: callback.pathname + callback.search,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Basic ${Buffer.from(`${subscriber.uuid}:x`).toString('base64')}`,
        'user-agent': USER_AGENT,
        'webhook-id': batch.bid,
        'routemaster-attempt': String(batch.attempts),
      },
      body: batchJson(batch.events),
    };
    const exchange = new Exchange(this.#timeoutMs, signal);
    this.#agent.dispatch(request, exchange);
    return exchange.outcome;
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** Plain http goes only to addresses that the operator allows: what is checked is the address that was connected to. */
function connector(settings: DeliverySettings, policy: CallbackPolicy): buildConnector.connector {
  const connect = buildConnector({
    timeout: settings.connectTimeoutMs,
    rejectUnauthorized: settings.sslVerify,
  });
  return (options, callback) =>
    connect(options, (...[error, socket]) => {
      if (error) return callback(error, null);
      const address = socket.remoteAddress ?? '';
      if (options.protocol !== 'http:' || policy.allowsHttpTo(address)) return callback(null, socket);
      socket.destroy();
      callback(new Error(`plain http to ${address} is not allowed`), null);
    });
}
