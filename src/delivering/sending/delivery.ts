import { LRUCache } from 'lru-cache';
import { clock } from '../../clock.ts';
import type { CallbackPolicy } from '../../subscribing/callback_policy.ts';
import { type DropNotice, dropNoticeHeader } from '../../subscribing/drop_notice.ts';
import { type Batch, batchBody } from '../batch.ts';
import type { Subscriber } from '../grant.ts';
import { type CallbackHost, CallbackHosts } from './callback_hosts.ts';
import { type ConnectionSettings, callbackConnections } from './delivery_connections.ts';
import { type DeliveryOutcome, Exchange } from './delivery_exchange.ts';
import { signatureHeaders } from './signatures.ts';
import { UnfinishedAnswers } from './unfinished_answers.ts';

const USER_AGENT = 'routemaster';

const MAX_TARGETS = 10_000;
const SCHEME = 'Basic ';
/** Minimum length of a secret that is removed from an answer. A shorter one may be an ordinary word of the answer. */
const MIN_SECRET = 16;

/** The data that all deliveries to a subscriber share. Caching them saves 5 % of CPU if each batch has one event. */
interface Target {
  callback: string;
  uuid: string;
  host: CallbackHost;
  path: string;
  authorization: string;
}

/** Delivers batches by POST to callbacks, over connections that are kept alive. Redirects are not followed. */
export class Delivery {
  /**
   * Caches the Target of each subscriber (what its deliveries share), by its token. When a Target is replaced or
   * evicted, the connections to its host are closed, unless another Target has the same host.
   */
  readonly #targets = new LRUCache<string, Target>({
    max: MAX_TARGETS,
    dispose: ({ host }) => this.#hosts.leave(host),
  });
  readonly #hosts: CallbackHosts;
  readonly #unfinished = new UnfinishedAnswers();
  readonly #timeoutMs: number;

  constructor(settings: ConnectionSettings, policy: CallbackPolicy) {
    this.#timeoutMs = settings.deliveryTimeoutMs;
    this.#hosts = new CallbackHosts(callbackConnections(settings, policy), settings.keptConnections);
  }

  /**
   * Sends a batch to the callback. If a kept connection is closed before the answer (`keptConnectionClosed`), sends the
   * batch once more. `notice` is sent as a header, and `atMs` is the time in the signature.
   *
   * Resolves with the outcome, at the latest ANSWER_WAIT_MS (delivery_exchange.ts) after the time limit for deliveries.
   * If `signal` is aborted, resolves at once. Throws RangeError if an event or the signing secret is unreadable, and
   * TypeError if the callback is not a URL.
   */
  deliver(
    batch: Batch,
    subscriber: Subscriber,
    signal: AbortSignal,
    notice?: DropNotice,
    atMs = clock.wallMs(),
  ): Promise<DeliveryOutcome> {
    const { host, path, authorization } = this.#target(batch.token, subscriber);
    const body = batchBody(batch.pieces);
    const request = {
      path,
      method: 'POST' as const,
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
    const exchange = new Exchange(batch.token, this.#timeoutMs, signal, this.#unfinished, () =>
      this.#hosts.dispatchAlone(host, request, exchange),
    );
    this.#hosts.dispatch(host, request, exchange);
    return exchange.outcome.then((outcome) => {
      if (outcome.accepted) return outcome;
      this.#hosts.failed(host);
      if (outcome.answer === undefined) return outcome;
      return {
        ...outcome,
        answer: without(outcome.answer, [authorization.slice(SCHEME.length), subscriber.uuid]),
      };
    });
  }

  #target(token: string, { callback, uuid }: Subscriber): Target {
    const known = this.#targets.get(token);
    if (known?.callback === callback && known.uuid === uuid) return known;
    const url = URL.parse(callback);
    // This error is logged, so it must not quote the callback, as the error of `new URL` would. Callbacks from a Ruby
    // Routemaster may contain credentials.
    if (!url) throw new TypeError('the callback is not a URL');
    const target = {
      callback,
      uuid,
      host: this.#hosts.join(url.origin),
      path: url.pathname + url.search,
      authorization: SCHEME + Buffer.from(`${uuid}:x`).toString('base64'),
    };
    this.#targets.set(token, target);
    return target;
  }

  async close(): Promise<void> {
    await this.#hosts.destroy();
  }
}

/**
 * Removes secrets from `answer`, the beginning of a callback's error page, because viewers see it. The page may quote
 * the headers of the request, which contain the secrets. A secret that is cut off at the end is removed too.
 */
function without(answer: string, secrets: readonly string[]): string {
  let text = answer;
  for (const secret of secrets.filter(({ length }) => length >= MIN_SECRET)) {
    text = text.replaceAll(secret, '…');
    for (let length = secret.length - 1; length >= MIN_SECRET; length--)
      if (text.endsWith(secret.slice(0, length))) text = `${text.slice(0, -length)}…`;
  }
  return text;
}
