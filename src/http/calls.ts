import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authentication } from '../authentication/authentication.ts';
import type { Sessions } from '../authentication/sessions.ts';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { hasMoreDelimiters, MAX_CHARACTERS_PER_BYTE, parseJson, SHORT_TEXT } from '../json.ts';
import type { AuditedCall } from '../records/audit.ts';
import { type Caller, clientOf } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import { type Answer, type Call, MAX_BODY_BYTES, type Route } from '../routing/route.ts';
import { sumOf } from '../sum.ts';
import type { Admission } from './admission.ts';
import { eachIn, isPieces } from './answers.ts';
import { bodyRefusal, checkIsOpen, readBytes, textInTurns, textOf } from './body.ts';
import type { CallLimits } from './call_limits.ts';
import { readForm, visitorOf, wrongVisitor } from './forms.ts';
import { checked } from './validation.ts';
import type { WorkBudget } from './work_budget.ts';

/** A body longer than this (bytes) is decoded in parts, and other requests are served in between. */
const LONG_BODY = 4096;
/**
 * If reading and checking a body takes longer than this, the checks made before the body was read are repeated: the
 * state of Redis and the caller's rights may have changed meanwhile.
 */
const LATE_MS = 50;

/** A request whose route is known. */
export interface Arrival {
  request: IncomingMessage;
  response: ServerResponse;
  path: string;
  params: unknown;
  query: unknown;
}

interface CallsParts {
  authentication: Pick<Authentication, 'wrongRole' | 'judgeAgain'>;
  sessions: Pick<Sessions, 'of'>;
  dialect: Pick<Dialect, 'wrongRole'>;
  admission: Admission;
  budget: WorkBudget;
  callLimits: CallLimits;
  storageWatch: { check(): Promise<void> | undefined };
}

/**
 * Carries out calls whose caller is identified: checks the inputs, reads the body, judges the credentials again, and
 * runs the handler.
 */
export class Calls {
  readonly #parts: CallsParts;

  constructor(parts: CallsParts) {
    this.#parts = parts;
  }

  /**
   * Makes a call and resolves with its answer. If the call is audited, `record` is its entry in the audit, and gets the
   * inputs of the call. Throws a BusError if the caller's role or an input is wrong, or if the handler refuses.
   */
  async make(
    route: Route,
    { request, path, params, query }: Arrival,
    { caller, formToken }: { caller: Caller | undefined; formToken: string },
    record: AuditedCall | undefined,
  ): Promise<Answer> {
    const { authentication, dialect } = this.#parts;
    if (caller && route.roles.length > 0 && !route.roles.includes(caller.role))
      throw route.page
        ? wrongVisitor(caller)
        : await authentication.wrongRole(caller, route.roles, dialect.wrongRole);
    const call: Call = {
      caller: caller as Call['caller'],
      path,
      params: checked(route.params, params),
      query: checked(route.query, query),
      headers: request.headers,
      request,
      formToken,
      text: '',
      body: undefined,
      judgeAgain: (from) => this.#judgeAgain(route, call, from),
    };
    if (record) {
      call.about = (name, client) =>
        record.about({ params: { name }, query: { client: client || undefined } });
      record.about(call);
      call.endedSubscriptions = (count) => record.endedSubscriptions(count);
    }
    await route.refuseEarly?.(call);
    if (takesBody(route)) return await this.#makeWithBody(route, request, call);
    return await this.#handle(route, call);
  }

  async #makeWithBody(route: Route, request: IncomingMessage, call: Call): Promise<Answer> {
    const { admission } = this.#parts;
    const maxBytes = route.maxBodyBytes ?? MAX_BODY_BYTES;
    const refusal = bodyRefusal(request, maxBytes);
    if (refusal) throw refusal;
    // If the sender has closed the connection, the body never comes. The request would wait for it forever, and keep
    // the memory that Admission reserves for it.
    checkIsOpen(request);
    // Memory is reserved only after the credentials have been checked. If it were reserved earlier, strangers could
    // hold all the memory for bodies.
    const reservation = admission.reserve(request, holderOf(call));
    const checkedAtMs = reservation.progressMs;
    try {
      const chunks = await readBytes(request, maxBytes, reservation);
      reservation.bodyCompleted();
      const isLong = sumOf(chunks.map(({ length }) => length)) > LONG_BODY;
      const whenFree = () => this.#parts.budget.whenFree(holderOf(call));
      call.text = isLong ? await textInTurns(chunks, whenFree) : textOf(chunks);
      // No `await` may come between `whenFree` and the parsing: WorkBudget limits the time of the parsing, which it
      // measures from `whenFree` to the next `await`.
      if (isLong && !route.takesText) await whenFree();
      call.body = route.form ? readForm(route, call) : readBody(route, call.text, maxBytes);
      await route.refuseLate?.(call);
      call.isLate = clock.monotonicMs() - checkedAtMs > LATE_MS;
      if (call.isLate) {
        await this.#parts.storageWatch.check();
        await route.refuseEarly?.(call);
      }
      return await this.#handle(route, call);
    } finally {
      reservation.release();
    }
  }

  /**
   * Runs the handler after the caller's earlier work (see `#inTurn`). Before a call that changes something, except a
   * publish, checks the credentials again.
   */
  #handle(route: Route, call: Call): Promise<Answer> {
    return this.#inTurn(route, call.caller, async () => {
      if (route.method !== 'GET' && !route.isFrequent)
        call.caller = (await call.judgeAgain('redis')) as Call['caller'];
      return await route.handle(call);
    });
  }

  /**
   * Checks the credentials of a call again, because they may have become invalid while the body arrived or the call
   * waited. `from` says where they are looked up. Publishes use the cache, because they are too frequent to ask Redis
   * each time.
   */
  async #judgeAgain(route: Route, { request, caller }: Call, from: 'redis' | 'cache'): Promise<Caller> {
    // Only the login form has no caller, and its handler needs none.
    if (route.page) return visitorOf(route, await this.#parts.sessions.of(request.headers)) as Caller;
    return await this.#parts.authentication.judgeAgain(request, caller, from);
  }

  /**
   * If the body of an answer consists of pieces, each piece is made only after the caller's earlier work (`#inTurn`).
   * So the caller's other calls can run between two pieces.
   */
  inTurns(route: Route, caller: Caller | undefined, answer: Answer): Answer {
    const { body } = answer;
    if (!isPieces(body)) return answer;
    return { ...answer, body: eachIn((make) => this.#inTurn(route, caller, make), body) };
  }

  /**
   * Runs `work` after the caller's earlier work (see CallLimits). If the caller's rate is not limited, runs `work` at
   * once.
   */
  #inTurn<T>(route: Route, caller: Caller | undefined, work: () => Promise<T>): Promise<T> {
    const counted = countedAs(route, caller);
    if (counted === undefined) return work();
    return this.#parts.callLimits.inTurn(counted, route.method === 'GET', work);
  }
}

/**
 * Returns the name under which Admission and the work budget count a caller: the token of a client, the empty string
 * for root and all viewers, or `:login` for all login forms, which have no caller.
 */
function holderOf({ caller }: { caller: Caller | undefined }): string {
  if (caller === undefined) return ':login';
  return clientOf(caller) ?? '';
}

/** Returns the name under which the rate of a caller is counted, or undefined if its rate is not limited. */
export function countedAs({ isFrequent }: Route, caller: Caller | undefined): string | undefined {
  if (isFrequent) return undefined;
  // All viewers count as one caller. No token begins with a colon, so no client has this name.
  if (caller?.role === 'viewer') return ':viewer';
  return clientOf(caller);
}

export function takesBody(route: Route): boolean {
  return route.body !== undefined || route.form !== undefined || route.takesText === true;
}

/** Ignores the content type, because clients of the Ruby Routemaster send any. */
function readBody({ body }: Route, text: string, maxBytes: number): unknown {
  if (!body) return undefined;
  // A body with too many delimiters (brackets, commas and quotes outside of strings) is refused unparsed, because
  // parsing it would take long. No valid body has so many: even a trigger with data of the maximum length, all of it
  // delimiters, stays below the limit.
  if (text.length > SHORT_TEXT && hasMoreDelimiters(text, maxBytes / MAX_CHARACTERS_PER_BYTE))
    throw new BusError('body_too_large', 'the body has too many values; send less');
  const isLeftOut = text === '' && body.schema.safeParse(undefined).success;
  return checked(body, isLeftOut ? undefined : parseJson(text));
}
