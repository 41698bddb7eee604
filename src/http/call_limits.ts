import type { IncomingMessage, ServerResponse } from 'node:http';
import { schemeOf } from '../authentication/authorization.ts';
import type { Config } from '../config.ts';
import { BusError } from '../errors.ts';
import { OwnerLimit } from '../routing/owner_limit.ts';
import { type Proxies, sourceOf } from '../routing/proxies.ts';
import { Buckets } from './buckets.ts';

/** A burst is at most as many calls as the rate permits in this time. */
const BURST_MS = 10_000;
/** An answer of this many bytes counts as one more call against the rate of its caller. */
const BYTES_PER_CALL = 16_384;
/** Maximum calls of a client that are not answered yet. Further calls are refused. */
const MAX_UNDER_WAY = 16;
/**
 * A client's calls that change something run one after the other. Before a call that had to wait, there is a pause. It
 * is as long as the previous call took, but at most this long (ms). Without pauses, a client that replaced
 * subscriptions to 1,000 topics over and over raised the p99 of other clients' publishes from 6 ms to some 25 ms.
 */
const MAX_PAUSE_MS = 20;
/**
 * Limits the rate of each client's calls other than publishes, and how many of them are under way. Also limits the rate
 * of requests without credentials from each IP address. A rate of 0 means no limits. Each web process counts for
 * itself, because a call slows down only the process that handles it.
 */
export class CallLimits {
  readonly #proxies: Proxies;
  readonly #clients: Buckets;
  readonly #strangers: Buckets;
  readonly #underWay = new Map<string, number>();
  /**
   * A client's reading calls are handled one at a time, and so are its changing calls, so that one client does not slow
   * down the others. Sixteen listings of 1,000 dead letters delayed another client's publish by half a second (p99)
   * when they ran at the same time. One after the other, they delayed it by up to 28 ms.
   */
  readonly #reading = new OwnerLimit(1);
  readonly #changing = new OwnerLimit(1, MAX_PAUSE_MS);

  constructor({ callRate, strangerRate }: Pick<Config, 'callRate' | 'strangerRate'>, proxies: Proxies) {
    this.#proxies = proxies;
    this.#clients = new Buckets(callRate, BURST_MS);
    this.#strangers = new Buckets(strangerRate, BURST_MS);
  }

  /**
   * Counts a request against the rate of its IP address. Throws rate_limited if the address has sent too many requests.
   * A request with credentials is counted only on routes that do not check credentials (`isStranger`).
   */
  admit(request: IncomingMessage, isStranger = false): void {
    if (schemeOf(request) !== '' && !isStranger) return;
    const source = sourceOf(this.#proxies.addressOf(request));
    const rate = `${this.#strangers.perSecond} requests a second without credentials, or to no route`;
    check(this.#strangers, source, `an address may send ${rate}`);
    this.#strangers.take(source, 1);
  }

  /**
   * Counts a call of a client as under way. Returns a function to call when the work for it has ended, or undefined if
   * there are no limits. The call stays under way until this function was called, and the answer was sent or the
   * connection closed. Throws rate_limited if the client has sent too many calls, or has too many under way.
   */
  begin(client: string, response: ServerResponse): (() => void) | undefined {
    if (this.#clients.perSecond === 0) return undefined;
    const rate = `${this.#clients.perSecond} calls a second other than publishing, less if answers are long`;
    check(this.#clients, client, `a client may make ${rate}`);
    const underWay = this.#underWay.get(client) ?? 0;
    if (underWay >= MAX_UNDER_WAY) throw tooMany(`a client may have ${MAX_UNDER_WAY} calls under way`, 0);
    this.#clients.take(client, 1);
    this.#underWay.set(client, underWay + 1);
    const { socket } = response.req;
    const awaited = new Set(['end', 'close']);
    const note = (what: string) => {
      if (!awaited.delete(what) || awaited.size > 0) return;
      const left = (this.#underWay.get(client) ?? 1) - 1;
      if (left === 0) this.#underWay.delete(client);
      else this.#underWay.set(client, left);
    };
    // Listens to the socket too, because Node emits no `close` on a response that still waits for earlier responses
    // when the connection closes.
    const closed = () => {
      response.off('close', closed);
      socket.off('close', closed);
      note('close');
    };
    response.once('close', closed);
    socket.once('close', closed);
    // A socket that is destroyed already emits no `close` any more.
    if (socket.destroyed) closed();
    return () => note('end');
  }

  /**
   * Runs `work` after the client's earlier work of the same kind. There are two kinds: work that only reads (`reads`),
   * and work that changes something. Work of one kind does not wait for the other kind. `work` handles a call, or makes
   * a piece of a long answer.
   */
  inTurn<T>(client: string, reads: boolean, work: () => Promise<T>): Promise<T> {
    if (this.#clients.perSecond === 0) return work();
    return (reads ? this.#reading : this.#changing).run(client, work);
  }

  /**
   * Counts the length of an answer on a public route against the rate of the caller's IP address. `admit` has already
   * counted the request itself.
   */
  answeredStranger(request: IncomingMessage, bytes: number): void {
    this.#strangers.take(sourceOf(this.#proxies.addressOf(request)), bytes / BYTES_PER_CALL);
  }

  /**
   * Counts an answer against the rate of a client: its length, and `priceInCalls` more calls if it was costly to make.
   */
  answered(client: string, bytes: number, priceInCalls = 0): void {
    this.#clients.take(client, bytes / BYTES_PER_CALL + priceInCalls);
  }
}

function check(buckets: Buckets, caller: string, detail: string): void {
  const waitMs = buckets.emptyForMs(caller);
  if (waitMs > 0) throw tooMany(detail, waitMs);
}

function tooMany(detail: string, waitMs: number): BusError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const headers = { 'Retry-After': String(seconds) };
  return new BusError('rate_limited', `${detail}; try again in ${seconds} s`, { headers });
}
