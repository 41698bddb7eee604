/**
 * Remembers which deliveries were handled. A delivery is claimed before it is handled, and confirmed afterwards. If the
 * process dies in between, the claim ends (in MemoryStore immediately, in RedisStore after a time limit), so that the
 * next attempt can be handled.
 */
export interface DeliveryStore {
  /**
   * Claims a delivery. After `claimed` the caller must handle the delivery, and then confirm or release it. The result
   * is `handled` if the delivery was confirmed before, and `busy` if another caller has claimed it.
   */
  claim(id: string): Promise<'claimed' | 'handled' | 'busy'>;
  confirm(id: string): Promise<void>;
  /** Ends a claim after a failure, so that the next attempt is handled. */
  release(id: string): Promise<void>;
}

export interface DeliveryStoreOptions {
  /**
   * Time for which a handled delivery is remembered, two days by default. It should be longer than the time for which
   * the bus repeats a failed delivery, which is a day by default.
   */
  rememberMs?: number;
}

export interface ClaimOptions {
  /**
   * Time after which a claim expires, a minute by default. It must be longer than handling a delivery takes. If it is
   * shorter, two callers can handle the delivery at the same time.
   */
  claimMs?: number;
}

const DAY_MS = 86_400_000;
const DEFAULT_REMEMBER_MS = 2 * DAY_MS;
const DEFAULT_CLAIM_MS = 60_000;
const DEFAULT_MAX = 100_000;

/**
 * Throws RangeError for a value that is not a number above 0. With NaN, for example, a store would forget each delivery
 * at once.
 */
export function refuseWrongNumber(name: string, value: unknown): void {
  if (typeof value !== 'number' || !(value > 0))
    throw new RangeError(`${name} must be a number above 0, not ${value}`);
}

/**
 * A store in the memory of one process. When the process ends, all deliveries are forgotten. While the process handles
 * a delivery, the store refuses repeats of it, however long that takes.
 */
export class MemoryStore implements DeliveryStore {
  readonly #rememberMs: number;
  readonly #max: number;
  /**
   * For each delivery, the time at which it was confirmed, or undefined while it is only claimed. Confirmed deliveries
   * are in the order of these times, so that `confirm` can forget the oldest ones first.
   */
  readonly #deliveries = new Map<string, number | undefined>();

  /** Remembers at most `max` deliveries, by default 100,000. Throws RangeError for a number that is not above 0. */
  constructor({
    rememberMs = DEFAULT_REMEMBER_MS,
    max = DEFAULT_MAX,
  }: DeliveryStoreOptions & { max?: number } = {}) {
    refuseWrongNumber('rememberMs', rememberMs);
    refuseWrongNumber('max', max);
    this.#rememberMs = rememberMs;
    this.#max = max;
  }

  async claim(id: string): Promise<'claimed' | 'handled' | 'busy'> {
    const handledMs = this.#deliveries.get(id);
    if (handledMs !== undefined && handledMs > Date.now() - this.#rememberMs) return 'handled';
    if (handledMs === undefined && this.#deliveries.has(id)) return 'busy';
    this.#deliveries.set(id, undefined);
    return 'claimed';
  }

  async confirm(id: string): Promise<void> {
    this.#deliveries.delete(id);
    this.#deliveries.set(id, Date.now());
    for (const [oldest, handledMs] of this.#deliveries) {
      if (this.#deliveries.size <= this.#max) return;
      if (handledMs !== undefined) this.#deliveries.delete(oldest);
    }
  }

  async release(id: string): Promise<void> {
    this.#deliveries.delete(id);
  }
}

/**
 * Sends a command to Redis: `(...command) => redis.call(...command)` with ioredis, or
 * `(...command) => client.sendCommand(command)` with node-redis.
 */
export type SendCommand = (...command: [string, ...string[]]) => Promise<unknown>;

/** Throws TypeError for a value that cannot send commands, such as a client of Redis, not a function that calls it. */
export function refuseNoSender(send: unknown): void {
  if (typeof send !== 'function')
    throw new TypeError('give a function that sends a command: (...command) => redis.call(...command)');
}

interface RedisOptions {
  /** The text with which every key begins. The default is `routemaster:`. */
  prefix?: string;
}

const CLAIMED = 'claimed';
const HANDLED = 'handled';
/** A Lua script that ends the claim of a delivery, unless the delivery was confirmed meanwhile. */
const RELEASE = `if redis.call('GET', KEYS[1]) == '${CLAIMED}' then return redis.call('DEL', KEYS[1]) end return 0`;

/** A store in Redis, which all processes of a service share. */
export class RedisStore implements DeliveryStore {
  readonly #send: SendCommand;
  readonly #prefix: string;
  readonly #rememberMs: number;
  readonly #claimMs: number;

  /** Throws TypeError if `send` is no function, and RangeError for a number that is not above 0. */
  constructor(send: SendCommand, options: DeliveryStoreOptions & ClaimOptions & RedisOptions = {}) {
    refuseNoSender(send);
    this.#send = send;
    this.#prefix = `${options.prefix ?? 'routemaster:'}delivery:`;
    this.#rememberMs = options.rememberMs ?? DEFAULT_REMEMBER_MS;
    this.#claimMs = options.claimMs ?? DEFAULT_CLAIM_MS;
    refuseWrongNumber('rememberMs', this.#rememberMs);
    refuseWrongNumber('claimMs', this.#claimMs);
  }

  async claim(id: string): Promise<'claimed' | 'handled' | 'busy'> {
    const key = this.#prefix + id;
    const before = await this.#send('SET', key, CLAIMED, 'NX', 'GET', 'PX', String(this.#claimMs));
    if (before === null) return 'claimed';
    return String(before) === HANDLED ? 'handled' : 'busy';
  }

  async confirm(id: string): Promise<void> {
    await this.#send('SET', this.#prefix + id, HANDLED, 'PX', String(this.#rememberMs));
  }

  async release(id: string): Promise<void> {
    await this.#send('EVAL', RELEASE, '1', this.#prefix + id);
  }
}
