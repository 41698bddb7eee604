import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authentication } from '../authentication/authentication.ts';
import type { LastSeen } from '../authentication/last_seen.ts';
import type { Session, Sessions } from '../authentication/sessions.ts';
import type { Caller } from '../caller.ts';
import { clock } from '../clock.ts';
import type { Dialect } from '../dialect.ts';
import { BusError, StorageUnavailable } from '../errors.ts';
import { parseJson } from '../json.ts';
import type { Log } from '../log.ts';
import type { Proxies } from '../proxies.ts';
import type { Audit, AuditedCall } from '../records/audit.ts';
import { type Answer, type Call, MAX_BODY_BYTES, type Route } from '../route.ts';
import { Admission } from './admission.ts';
import { eachIn, isPieces, send, setBrowserHeaders } from './answers.ts';
import { bodyRefusal, checkIsOpen, readBytes, textInSteps, textOf } from './body.ts';
import type { CallLimits } from './call_limits.ts';
import { readForm, visitorOf, wrongVisitor } from './forms.ts';
import { redirectToHttps } from './https.ts';
import { answerProblem, errorToAnswer, preparedProblem } from './problems.ts';
import { overloaded } from './reservation.ts';
import { checked } from './validation.ts';
import { checkHeaders } from './well_formed.ts';
import { WorkBudget } from './work_budget.ts';

/**
 * A body with more bytes than this is decoded in several turns of the event loop, so that other requests do not wait
 * for it.
 */
const LONG_BODY = 4096;
/**
 * If the body of a publish takes longer than this to arrive, its caller is checked again, because its client may have
 * been removed meanwhile.
 */
const MOMENT_MS = 50;

/** The answer `overloaded` is built once, so that refusing a request costs little. */
const answerOverloaded = preparedProblem(overloaded());

export interface PipelineParts {
  authentication: Pick<Authentication, 'callerOf' | 'wrongRole' | 'confirm'>;
  /** The sessions of the console. If absent, there is no console. */
  sessions?: Pick<Sessions, 'of'>;
  forceSsl: boolean;
  proxies: Proxies;
  dialect: Pick<Dialect, 'redirected' | 'wrongRole' | 'otherMethod'>;
  ready: () => boolean;
  log: Log;
  admission?: Admission;
  /** Spreads long work, such as decoding bodies, over turns of the event loop. A web process has one such budget. */
  budget?: WorkBudget;
  /** Limits the rates of callers. If absent, there is no limit. */
  callLimits?: CallLimits;
  /** Records the calls that change something. If absent, nothing is recorded. */
  audit?: Audit;
  /** Stores when each client called last. If absent, that is not stored. */
  lastSeen?: Pick<LastSeen, 'note'>;
}

interface Arrival {
  request: IncomingMessage;
  response: ServerResponse;
  path: string;
  params: unknown;
  query: unknown;
}

/** Handles every request of the API from its arrival to its answer. */
export class Pipeline {
  readonly #parts: PipelineParts;
  readonly #admission: Admission;
  readonly #budget: WorkBudget;

  constructor(parts: PipelineParts) {
    this.#parts = parts;
    this.#admission = parts.admission ?? new Admission();
    this.#budget = parts.budget ?? new WorkBudget();
  }

  /** Resolves when the request is answered; never rejects. */
  async answer(route: Route, arrival: Arrival): Promise<void> {
    const { request, response } = arrival;
    let session: Session | undefined;
    let counted: string | undefined;
    try {
      setBrowserHeaders(request, response, this.#parts.forceSsl);
      checkHeaders(request, route.page !== undefined || route.isPublic);
      if (!route.isHealthCheck) {
        if (this.#isPlainHttp(request)) return await this.#redirect(request, response);
        this.#refuseUntilReady();
      }
      const isStrange = route.isUnknown || route.isPublic;
      if (isStrange || !route.isHealthCheck) this.#parts.callLimits?.admit(request, isStrange);
      // If the process handles too many requests or bytes already (see Admission), a request with a body is refused
      // before its credentials are checked, because checking them takes half of the work of a publish.
      if (takesBody(route) && !this.#admission.hasRoom(request)) return answerOverloaded(response);
      const { sessions, callLimits } = this.#parts;
      if (route.page) session = await sessions?.of(request.headers);
      const caller = await this.#callerOf(route, request, session);
      if (caller?.role === 'client') this.#parts.lastSeen?.note(caller.token);
      counted = route.isFrequent ? undefined : countedAs(caller);
      if (counted !== undefined) {
        // The work budget spreads calls over several turns of the event loop. It comes before `begin`, so that it also
        // spreads the calls that `begin` refuses. This matters because a refusal takes about 0.5 ms.
        const turn = this.#budget.turn(counted);
        if (turn) await turn;
        callLimits?.begin(counted, response);
      }
      const record = caller && this.#record(route, request, caller);
      const calling = this.#call(route, arrival, { caller, formToken: session?.formToken ?? '' }, record);
      const answer = await (record ? record.of(calling) : calling);
      const bytes = await send(response, this.#inTurns(route, caller, answer));
      if (counted !== undefined) callLimits?.answered(counted, bytes, answer.calls);
      else if (route.isPublic) callLimits?.answeredStranger(request, bytes);
    } catch (error) {
      if (counted !== undefined && error instanceof BusError)
        this.#parts.callLimits?.answered(counted, 0, error.calls);
      if (route.page) await this.#failPage(route.page, error, arrival, session);
      else this.fail(error, request, response);
    }
  }

  fail(error: unknown, request: IncomingMessage, response: ServerResponse): void {
    answerProblem(this.#parts.log, error, request, response);
  }

  async #failPage(
    page: NonNullable<Route['page']>,
    thrown: unknown,
    { request, response, path }: Arrival,
    session: Session | undefined,
  ): Promise<void> {
    const error = errorToAnswer(this.#parts.log, thrown, request);
    if (response.headersSent) return void response.destroy();
    await send(response, page(error, { caller: session?.caller, path, headers: request.headers }));
  }

  #callerOf(
    route: Route,
    request: IncomingMessage,
    session: Session | undefined,
  ): Caller | undefined | Promise<Caller> {
    if (route.page) return visitorOf(route, session);
    if (route.roles.length > 0) return this.#parts.authentication.callerOf(request, route.roles);
    return undefined;
  }

  async #call(
    route: Route,
    { request, path, params, query }: Arrival,
    { caller, formToken }: { caller: Caller | undefined; formToken: string },
    record: AuditedCall | undefined,
  ): Promise<Answer> {
    if (caller && route.roles.length > 0 && !route.roles.includes(caller.role))
      throw route.page ? wrongVisitor(caller) : await this.#wrongRole(caller, route);
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
    };
    record?.about(call);
    const refusing = route.refuseEarly?.(call);
    if (refusing) await refusing;
    if (takesBody(route)) return this.#callWithBody(route, request, call);
    return this.#inTurn(route, caller, () => this.#handle(route, call));
  }

  /**
   * Calls the handler of a route. If the call changes something, checks the credentials again before that: they were
   * checked when the headers arrived, and the client may have been removed since. A publish (`isFrequent`) is not
   * checked again here, because there are too many publishes.
   */
  async #handle(route: Route, call: Call): Promise<Answer> {
    if (route.method !== 'GET' && !route.isFrequent) call.caller = await this.#confirm(route, call, true);
    return route.handle(call);
  }

  /**
   * Runs `work`, which handles a call. The calls of a caller with a limited rate, other than publishes, take turns: one
   * that reads and one that changes something run at a time. So a caller with many calls does not hold up others (see
   * CallLimits).
   */
  #inTurn<T>(route: Route, caller: Caller | undefined, work: () => Promise<T>): Promise<T> {
    const { callLimits } = this.#parts;
    const counted = route.isFrequent ? undefined : countedAs(caller);
    return counted !== undefined && callLimits
      ? callLimits.inTurn(counted, route.method === 'GET', work)
      : work();
  }

  /**
   * Returns the answer of a handler. If the handler makes the body in pieces, each piece is made through `#inTurn`, so
   * that other calls of the same caller can run between two pieces of a long answer.
   */
  #inTurns(route: Route, caller: Caller | undefined, answer: Answer): Answer {
    const { body } = answer;
    if (!isPieces(body)) return answer;
    return { ...answer, body: eachIn((make) => this.#inTurn(route, caller, make), body) };
  }

  async #callWithBody(route: Route, request: IncomingMessage, call: Call): Promise<Answer> {
    const maxBytes = route.maxBodyBytes ?? MAX_BODY_BYTES;
    const refusal = bodyRefusal(request, maxBytes);
    if (refusal) throw refusal;
    // If the sender has closed the connection meanwhile, its request must not count against the limits of Admission.
    checkIsOpen(request);
    // The reservation is made after the credentials were checked. Otherwise callers without credentials could hold all
    // the memory for bodies.
    const reservation = this.#admission.reserve(request, holderOf(call));
    const judgedAtMs = reservation.progressMs;
    try {
      const chunks = await readBytes(request, maxBytes, reservation);
      reservation.startWork();
      const isLong = lengthOf(chunks) > LONG_BODY;
      call.text = isLong ? await this.#textInTurns(chunks, holderOf(call)) : textOf(chunks);
      call.body = route.form ? readForm(route, call) : readBody(route, call.text);
      if (route.refuseLate) await route.refuseLate(call);
      if (route.isFrequent && clock.monotonicMs() - judgedAtMs > MOMENT_MS) {
        call.caller = await this.#confirm(route, call, false);
        await route.refuseEarly?.(call);
      }
      return await this.#inTurn(route, call.caller, () => this.#handle(route, call));
    } finally {
      reservation.release();
    }
  }

  async #textInTurns(chunks: readonly Buffer[], holder: string): Promise<string> {
    const steps = textInSteps(chunks);
    for (;;) {
      await this.#budget.turn(holder);
      const { done, value } = steps.next();
      if (done) return value;
    }
  }

  /**
   * Checks the credentials of a call again, because the client may have been removed, or its secret replaced, during
   * the request. With `isNow` they are checked in Redis, otherwise in the cache of clients.
   */
  async #confirm(route: Route, { request, caller }: Call, isNow: boolean): Promise<Call['caller']> {
    if (route.page)
      return visitorOf(route, await this.#parts.sessions?.of(request.headers)) as Call['caller'];
    return (await this.#parts.authentication.confirm(request, caller, isNow)) as Call['caller'];
  }

  async #redirect(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await send(response, redirectToHttps(request, this.#parts.dialect.redirected));
  }

  #isPlainHttp(request: IncomingMessage): boolean {
    return this.#parts.forceSsl && !this.#parts.proxies.cameByHttps(request);
  }

  #wrongRole(caller: Caller, { roles }: Route): Promise<BusError> {
    const { authentication, dialect } = this.#parts;
    return authentication.wrongRole(caller, roles, dialect.wrongRole);
  }

  /**
   * Begins the audit entry of a call that changes something. Calls above the rate limit were refused before, so a flood
   * of calls does not fill the audit.
   */
  #record({ action }: Route, request: IncomingMessage, caller: Caller): AuditedCall | undefined {
    const { audit, proxies } = this.#parts;
    return action === undefined ? undefined : audit?.begin(action, caller, proxies.addressOf(request));
  }

  #refuseUntilReady(): void {
    if (!this.#parts.ready()) throw new StorageUnavailable('the storage is not prepared yet');
  }
}

/**
 * Returns the name of a caller for Admission, which limits the requests and bytes of each caller, and for the work
 * budget, which lets callers take turns. Root and viewers share the empty name.
 */
function holderOf({ caller }: { caller: Caller | undefined }): string {
  // The sender of a login form is unknown until the form is read. So all senders of login forms count as one caller.
  if (caller === undefined) return ':login';
  return caller.role === 'client' ? caller.token : '';
}

/** Returns the name under which the rate of a caller is counted. Returns undefined if its rate is not limited. */
function countedAs(caller: Caller | undefined): string | undefined {
  // No token begins with a colon, so this name is no client's.
  if (caller?.role === 'viewer') return ':viewer';
  return caller?.role === 'client' ? caller.token : undefined;
}

function lengthOf(chunks: readonly Buffer[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
}

function takesBody(route: Route): boolean {
  return route.body !== undefined || route.form !== undefined || route.takesText === true;
}

/**
 * Reads the body as JSON. The content type is ignored, because clients of the Ruby Routemaster send any content type.
 */
function readBody({ body }: Route, text: string): unknown {
  if (!body) return undefined;
  const isLeftOut = text === '' && body.schema.safeParse(undefined).success;
  return checked(body, isLeftOut ? undefined : parseJson(text));
}
