import type { IncomingMessage } from 'node:http';
import type { Authentication } from '../authentication/authentication.ts';
import type { LastSeen } from '../authentication/last_seen.ts';
import type { Session, Sessions } from '../authentication/sessions.ts';
import { sleep } from '../clock.ts';
import { BusError, StorageUnavailable } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Audit } from '../records/audit.ts';
import type { Caller } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import type { Proxies } from '../routing/proxies.ts';
import type { Answer, Route } from '../routing/route.ts';
import { Admission } from './admission.ts';
import { send, setBrowserHeaders } from './answers.ts';
import type { CallLimits } from './call_limits.ts';
import { type Arrival, Calls, countedAs, takesBody } from './calls.ts';
import { visitorOf } from './forms.ts';
import { answerProblem, errorToAnswer, preparedProblem } from './problems.ts';
import { type RefusalRecorder, RefusedCalls } from './refused_calls.ts';
import { overloaded } from './reservation.ts';
import { checkHeaders } from './well_formed.ts';
import type { WorkBudget } from './work_budget.ts';

/**
 * The answer of a full process. It is built once, and not thrown as an error, because a refusal then takes 20 µs of CPU
 * instead of 28.
 */
const answerOverloaded = preparedProblem(overloaded());

export interface PipelineParts {
  authentication: Pick<Authentication, 'callerOf' | 'wrongRole' | 'judgeAgain'>;
  sessions: Pick<Sessions, 'of'>;
  forceSsl: boolean;
  proxies: Proxies;
  dialect: Pick<Dialect, 'redirected' | 'wrongRole' | 'otherMethod'>;
  ready: () => boolean;
  /** While Redis has lost the data of the bus, `check` rejects, and so refuses the request. */
  storageWatch: { check(): Promise<void> | undefined };
  log: Log;
  recorder: RefusalRecorder;
  admission?: Admission;
  /** One for each web process. */
  budget: WorkBudget;
  callLimits: CallLimits;
  audit: Pick<Audit, 'begin'>;
  lastSeen: Pick<LastSeen, 'note'>;
}

/**
 * Handles every request from its arrival to its answer. Decides by the headers whether to accept the request, and finds
 * out who sent it. `Calls` does the rest.
 */
export class Pipeline {
  readonly #parts: PipelineParts;
  readonly #admission: Admission;
  readonly #calls: Calls;
  readonly #refused: RefusedCalls;

  constructor(parts: PipelineParts) {
    this.#parts = parts;
    this.#admission = parts.admission ?? new Admission();
    this.#calls = new Calls({ ...parts, admission: this.#admission });
    this.#refused = new RefusedCalls(parts.recorder, parts.log);
  }

  /** Resolves when the request is answered; never rejects. */
  async answer(route: Route, arrival: Arrival): Promise<void> {
    const { request, response } = arrival;
    let session: Session | undefined;
    let counted: string | undefined;
    let ended: (() => void) | undefined;
    const { sessions, callLimits, lastSeen, budget, audit, proxies, log } = this.#parts;
    try {
      if (await this.#answeredByHeaders(route, arrival)) return;
      if (route.page) session = await sessions.of(request.headers);
      const caller = await this.#callerOf(route, request, session);
      if (caller?.role === 'client') lastSeen.note(caller.token);
      counted = countedAs(route, caller);
      if (counted !== undefined) {
        // If `begin` refuses a call, the refusal takes about 0.5 ms. So `whenFree` spreads many such calls over several
        // turns of the event loop, and other requests need not wait for all of them.
        await budget.whenFree(counted);
        ended = callLimits.begin(counted, response);
      }
      // Calls beyond the rate limit do not get here, so a flood of them does not fill the audit.
      const record = caller && route.action && audit.begin(route.action, caller, proxies.addressOf(request));
      const who = { caller, formToken: session?.formToken ?? '' };
      const calling = this.#calls.make(route, arrival, who, record);
      const answer = await (record ? record.of(calling) : calling);
      if (answer.delayMs !== undefined) await sleep(answer.delayMs);
      const bytes = await send(response, this.#calls.inTurns(route, caller, answer));
      if (counted !== undefined) callLimits.answered(counted, bytes, answer.priceInCalls);
      else if (route.isPublic) callLimits.answeredStranger(request, bytes);
    } catch (thrown) {
      const error = errorToAnswer(log, thrown, request);
      this.#refused.count(error.code);
      if (counted !== undefined) callLimits.answered(counted, 0, error.priceInCalls);
      if (route.page) await this.#failPage(route.page, error, arrival, session);
      else answerProblem(error, response);
    } finally {
      ended?.();
    }
  }

  /**
   * Makes the checks that come before the credentials: of the headers, the state of the process, and the rate of the IP
   * address. Returns true if the request was answered here: by a redirect, or because the process is full (see
   * Admission). Throws the error of any other refusal.
   */
  async #answeredByHeaders(route: Route, { request, response }: Arrival): Promise<boolean> {
    const { forceSsl, proxies, dialect, ready, storageWatch, callLimits } = this.#parts;
    setBrowserHeaders(request, response, forceSsl);
    // If the route takes no body, the body of the request is discarded. Otherwise Node would keep up to 64 KiB of it
    // until the answer is sent. In chunks of one byte, these take 26 MB of memory.
    if (!takesBody(route)) request.resume();
    const isOpen = route.page !== undefined || route.isPublic;
    checkHeaders(request, isOpen);
    if (!route.isHealthCheck) {
      if (forceSsl && !proxies.cameByHttps(request)) {
        await send(response, redirectToHttps(request, dialect.redirected));
        return true;
      }
      if (!ready()) throw new StorageUnavailable(undefined, 'Redis is not ready for the bus yet');
      await storageWatch.check();
    }
    const isStrange = route.isUnknown || isOpen;
    if (isStrange || !route.isHealthCheck) callLimits.admit(request, isStrange);
    // A full process refuses requests with a body here, before it checks their credentials. Otherwise each refusal
    // would cost half of the work of a publish.
    if (!takesBody(route) || this.#admission.hasRoom(request)) return false;
    if (route.page) throw overloaded();
    this.#refused.count('overloaded');
    answerOverloaded(response);
    return true;
  }

  async #failPage(
    page: NonNullable<Route['page']>,
    error: BusError,
    { request, response, path }: Arrival,
    session: Session | undefined,
  ): Promise<void> {
    if (response.headersSent) return void response.destroy();
    const { caller, formToken = '' } = session ?? {};
    const { headers, method, url = path } = request;
    await send(response, page(error, { caller, formToken, headers, method, url }));
  }

  async #callerOf(
    route: Route,
    request: IncomingMessage,
    session: Session | undefined,
  ): Promise<Caller | undefined> {
    if (route.page) return visitorOf(route, session);
    if (route.roles.length > 0) return await this.#parts.authentication.callerOf(request, route.roles);
    return undefined;
  }
}

/**
 * Returns a redirect to the same host and path by https, without the port. The status is `reads` for GET and HEAD, and
 * `others` for other methods. Throws bad_header if the request has no Host header.
 */
function redirectToHttps(
  { headers, method, url }: IncomingMessage,
  { reads, others }: Dialect['redirected'],
): Answer {
  const host = headers.host?.replace(/:\d*$/, '');
  if (!host) throw new BusError('bad_header', 'the Host header is missing, and http is not served here');
  const status = method === 'GET' || method === 'HEAD' ? reads : others;
  return { status, headers: { Location: `https://${host}${pathOf(url ?? '')}` } };
}

/** Returns the path and query of a request's target, which may be absolute (`http://host/path`). */
function pathOf(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?]*/i, '');
  return path.startsWith('/') ? path : `/${path}`;
}
