import type { PublicNames } from '../authentication/public_names.ts';
import type { Config } from '../config.ts';
import { BusError, ERRORS, type ErrorCode, isPassing } from '../errors.ts';
import { type Log, reasonOf } from '../log.ts';
import type { Action } from '../routing/actions.ts';
import type { Caller } from '../routing/caller.ts';
import type { Answer, Call } from '../routing/route.ts';
import type { Arguments } from '../store/contracts.ts';
import type { Partition } from '../store/partition.ts';
import { pairsOf } from '../store/replies.ts';
import { auditedJobId } from './job_id.ts';

/**
 * Maximum characters of a name in the audit. Ids of jobs and public names of joins can be longer, and are shortened.
 */
const MAX_NAME = 100;
/** Maximum entries that one Redis command reads. 500 take Redis about a millisecond. */
const MAX_ENTRIES_PER_READ = 500;
/** Maximum entries that are searched for one page. */
const MAX_SEARCHED = 5000;

type Entry = Omit<Arguments<'record_call'>, 'maxEntries'>;

interface AuditFilter {
  /** Lists only entries of this time (ms) or later. */
  since?: number | undefined;
  client?: string | undefined;
  action?: Action | undefined;
  /**
   * Lists only entries with this target: what the call changed, such as a topic or client. With `shop`, entries with a
   * target such as `orders of shop` are listed too.
   */
  target?: string | undefined;
}

/** An entry as Redis has it. The id begins with the time in ms. A field without a value is an empty text. */
export type StoredEntry = { id: string } & Record<string, string>;

interface AuditParts {
  control: Partition;
  publicNames: Pick<PublicNames, 'forLog'>;
  config: Pick<Config, 'auditEntries'>;
  log: Log;
}

/**
 * Records who has changed what. Each call of a route with an `action` becomes a line of the log, and an entry of a
 * Redis stream, which keeps the newest `auditEntries` entries. Entries name clients by their public names, and contain
 * no bodies.
 */
export class Audit {
  readonly #parts: AuditParts;
  #isReported = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: AuditParts) {
    this.#parts = parts;
  }

  /** Begins to observe a call. Its entry is written when the call has ended. */
  begin(action: Action, caller: Caller, address: string): AuditedCall {
    const write = (ending: Promise<Ended>) => this.#write({ action, role: caller.role, address }, ending);
    return new AuditedCall(caller, (token) => this.#nameOf(token), write);
  }

  /** Records that the bus paused a subscriber, because its callback answered 410 (Gone). */
  pausedByBus(token: string): void {
    const ending = this.#nameOf(token).then((target) => ({ target, status: 410, code: 'callback_gone' }));
    this.#write({ action: 'subscriber.pause', role: 'bus', address: '' }, ending);
  }

  /**
   * Returns up to `limit` matching entries that are older than `before`, newest first. At most MAX_SEARCHED entries are
   * searched (`looked` is how many), so a page may be short although older entries match. `next` is the `before` of the
   * next page; undefined on the last page.
   */
  async list(filter: AuditFilter, limit: number, before?: string) {
    const entries: StoredEntry[] = [];
    const { client, action, target } = filter;
    const isFiltered = client !== undefined || action !== undefined || target !== undefined;
    const count = isFiltered ? MAX_ENTRIES_PER_READ : Math.min(limit + 1, MAX_ENTRIES_PER_READ);
    let looked = 0;
    for (let place = before; ; ) {
      const slice = await this.#read(filter.since, place, count);
      for (const entry of slice) {
        if (entries.length === limit || looked === MAX_SEARCHED) return { entries, looked, next: place };
        looked++;
        place = entry.id;
        if (matches(entry, filter)) entries.push(entry);
      }
      if (slice.length < count) return { entries, looked };
    }
  }

  /**
   * Writes an entry. Entries are written in the order in which their calls ended, even if the bus takes long to look up
   * the name of a caller.
   */
  #write(about: Pick<Entry, 'role' | 'address'> & { action: Action }, ending: Promise<Ended>): void {
    this.#writing = this.#writing.then(async () => {
      const entry = { ...about, ...(await ending) };
      this.#parts.log.info(entry, 'audit');
      void this.#store(entry);
    });
  }

  async #nameOf(token: string): Promise<string> {
    return (await this.#parts.publicNames.forLog(token)).slice(0, MAX_NAME);
  }

  async #read(since: number | undefined, before: string | undefined, count: number): Promise<StoredEntry[]> {
    const read = await this.#parts.control.command((redis, keys) =>
      redis.xrevrange(keys.audit(), before ? `(${before}` : '+', since ?? '-', 'COUNT', count),
    );
    return read.map(([id, flat]) => ({ id, ...Object.fromEntries(pairsOf(flat)) }));
  }

  /** Stores an entry in Redis. Never throws: if Redis is away, the entry is only in the log. */
  async #store(entry: Entry): Promise<void> {
    const maxEntries = this.#parts.config.auditEntries;
    if (maxEntries === 0) return;
    try {
      await this.#parts.control.run('record_call', { ...entry, maxEntries });
    } catch (error) {
      if (isPassing(error) || this.#isReported) return;
      this.#isReported = true;
      this.#parts.log.warn(
        { reason: reasonOf(error) },
        'the audit cannot be stored and is only in the log; grant the user of Redis +xadd, as the ACL in docs/operating.md does',
      );
    }
  }
}

type Ended = Pick<Entry, 'client' | 'target' | 'status' | 'code' | 'subscriptions'>;

/** A call under way, which will have an entry in the audit. */
export class AuditedCall {
  readonly #nameOf: (token: string) => Promise<string>;
  readonly #write: (ending: Promise<Ended>) => void;
  readonly #client: Promise<string> | undefined;
  #target: Promise<string> | string | undefined;
  #subscriptions: number | undefined;

  /** `nameOf` resolves with the name by which the audit shows a client or subscriber, and never rejects. */
  constructor(
    caller: Caller,
    nameOf: (token: string) => Promise<string>,
    write: (ending: Promise<Ended>) => void,
  ) {
    this.#nameOf = nameOf;
    this.#write = write;
    this.#client = caller.role === 'client' ? nameOf(caller.token) : undefined;
  }

  /**
   * Sets the target of the entry: what the call changes, such as a topic, or a client by its public name. Call this
   * before the change, because a removed client has no public name.
   */
  about({ params, query }: Pick<Call, 'params' | 'query'>): void {
    const { name, id, token } = (params ?? {}) as Record<string, string | undefined>;
    const { subscriber, client } = (query ?? {}) as { subscriber?: string; client?: string };
    const whose = token ?? subscriber ?? client;
    const named = (name ?? (id && auditedJobId(id)))?.slice(0, MAX_NAME);
    if (whose === undefined) this.#target = named;
    else
      this.#target = this.#nameOf(whose).then((whose) =>
        named === undefined ? whose : `${named} of ${whose}`,
      );
  }

  /** Sets how many subscriptions of clients the call has ended. */
  endedSubscriptions(count: number): void {
    this.#subscriptions = count;
  }

  /**
   * Resolves with the result of the call, or rejects with its error. Begins to write the entry, but does not wait for
   * the writing.
   */
  async of(calling: Promise<Answer>): Promise<Answer> {
    try {
      const answer = await calling;
      const { token } = (answer.body ?? {}) as { token?: string };
      // If the call has made a client, the client's token is known only now, from the answer.
      if (token !== undefined) this.#target = this.#nameOf(token);
      this.#write(this.#ended(answer.status, answer.code));
      return answer;
    } catch (error) {
      const code = error instanceof BusError ? error.code : 'internal';
      this.#write(this.#ended(ERRORS[code].status, code));
      throw error;
    }
  }

  async #ended(status: number, code?: ErrorCode): Promise<Ended> {
    const [client, target] = await Promise.all([this.#client, this.#target]);
    return { client, target, status, code, subscriptions: this.#subscriptions };
  }
}

function matches(entry: StoredEntry, { client, action, target }: AuditFilter): boolean {
  return (
    (client === undefined || entry.client === client) &&
    (action === undefined || entry.action === action) &&
    (target === undefined || isAbout(target, entry.target))
  );
}

/** True if the target of an entry is `text`, or one of the two parts of a target such as `orders of shop`. */
function isAbout(text: string, target = ''): boolean {
  return target === text || target.startsWith(`${text} of `) || target.endsWith(` of ${text}`);
}
