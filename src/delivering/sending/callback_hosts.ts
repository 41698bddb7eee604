import type { Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import { clock } from '../../clock.ts';

/**
 * Age at which the connections to a host are replaced, even busy ones. Otherwise deliveries would still go to the old
 * address after a change in DNS. A lower age would cost more TLS handshakes.
 */
const MAX_AGE_MS = 5 * 60_000;

/** Makes an undici dispatcher for requests to one origin. It calls `opened` with each connection that it opens. */
export type DispatcherTo = (origin: string, opened: (socket: Socket) => void) => Dispatcher;

/** An origin (scheme, host and port) of callbacks, with the connections to it. */
export interface CallbackHost {
  readonly origin: string;
  /** Number of subscribers with a callback on this host. */
  subscribers: number;
  /** Number of open connections. */
  open: number;
  /** The undici dispatcher that holds the connections. Undefined if no connection is kept. */
  dispatcher?: Dispatcher | undefined;
  /** When `dispatcher` was made, by the monotonic clock. */
  sinceMs: number;
}

/**
 * Keeps connections to the hosts of callbacks. Subscribers with the same origin share the connections. Closes the
 * connections to a host when its last subscriber leaves. If more than `maxKept` connections are open, closes those to
 * the least recently used host. A connection is closed only after its requests have ended.
 */
export class CallbackHosts {
  readonly #dispatcherTo: DispatcherTo;
  readonly #maxKept: number;
  readonly #hosts = new Map<string, CallbackHost>();
  /** Hosts with a dispatcher, the least recently used first. */
  readonly #used = new Set<CallbackHost>();
  readonly #closing = new Set<Dispatcher>();
  #open = 0;

  constructor(dispatcherTo: DispatcherTo, maxKept: number) {
    this.#dispatcherTo = dispatcherTo;
    this.#maxKept = maxKept;
  }

  /** Notes that one more subscriber has its callback at this origin, until `leave` is called. */
  join(origin: string): CallbackHost {
    const host = this.#hosts.get(origin) ?? { origin, subscribers: 0, open: 0, sinceMs: 0 };
    this.#hosts.set(origin, host);
    host.subscribers++;
    return host;
  }

  leave(host: CallbackHost): void {
    if (--host.subscribers > 0) return;
    this.#hosts.delete(host.origin);
    this.#closeConnections(host);
  }

  dispatch(
    host: CallbackHost,
    request: Omit<Dispatcher.DispatchOptions, 'origin'>,
    handler: Dispatcher.DispatchHandler,
  ): void {
    const nowMs = clock.monotonicMs();
    if (nowMs - host.sinceMs > MAX_AGE_MS) this.#closeConnections(host);
    if (!host.dispatcher) {
      host.dispatcher = this.#dispatcher(host);
      host.sinceMs = nowMs;
    }
    this.#used.delete(host);
    this.#used.add(host);
    host.dispatcher.dispatch({ ...request, origin: host.origin }, handler);
  }

  /** Like `dispatch`, but over a connection that is opened for this request, and closed after it. */
  dispatchAlone(
    host: CallbackHost,
    request: Omit<Dispatcher.DispatchOptions, 'origin'>,
    handler: Dispatcher.DispatchHandler,
  ): void {
    const dispatcher = this.#dispatcher(host);
    dispatcher.dispatch({ ...request, origin: host.origin }, handler);
    this.#close(dispatcher);
  }

  /**
   * Call this when a request to the host has failed. If no connection to the host is open, drops its dispatcher, in
   * which undici keeps 20 KB.
   */
  failed(host: CallbackHost): void {
    if (host.open === 0) this.#closeConnections(host);
  }

  /** Closes all connections, and cuts off the requests on them. */
  async destroy(): Promise<void> {
    const dispatchers = [...this.#closing, ...[...this.#used].flatMap(({ dispatcher }) => dispatcher ?? [])];
    await Promise.all(dispatchers.map((each) => each.destroy()));
  }

  #dispatcher(host: CallbackHost): Dispatcher {
    return this.#dispatcherTo(host.origin, (socket) => this.#opened(host, socket));
  }

  #opened(host: CallbackHost, socket: Socket): void {
    host.open++;
    this.#open++;
    socket.once('close', () => {
      this.#open--;
      // When the last connection to the host closes, the dispatcher is dropped. Otherwise undici would keep objects for
      // closed connections in the dispatcher.
      if (--host.open === 0) this.#closeConnections(host);
    });
    if (this.#open > this.#maxKept) this.#closeLeastRecentlyUsed(host);
  }

  #closeLeastRecentlyUsed(except: CallbackHost): void {
    for (const host of this.#used) {
      if (host === except) continue;
      this.#closeConnections(host);
      if (host.open > 0) return;
    }
  }

  #closeConnections(host: CallbackHost): void {
    const { dispatcher } = host;
    if (!dispatcher) return;
    host.dispatcher = undefined;
    this.#used.delete(host);
    this.#close(dispatcher);
  }

  /** Closes the connections of a dispatcher once its requests have ended. */
  #close(dispatcher: Dispatcher): void {
    this.#closing.add(dispatcher);
    // The error is ignored: `close` rejects only if `destroy` was called meanwhile.
    void dispatcher
      .close()
      .catch(() => {})
      .then(() => this.#closing.delete(dispatcher));
  }
}
