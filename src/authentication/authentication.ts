import type { IncomingMessage } from 'node:http';
import { clock } from '../clock.ts';
import { BusError } from '../errors.ts';
import { type Log, loggedPath } from '../log.ts';
import type { Caller, Role } from '../routing/caller.ts';
import type { Dialect } from '../routing/dialect.ts';
import { type Proxies, sourceOf } from '../routing/proxies.ts';
import { schemeOf } from './authorization.ts';
import { Basic } from './basic.ts';
import type { ClientDirectory } from './client_directory.ts';
import { Credentials } from './credentials.ts';
import { Digest } from './digest.ts';
import { type FailedLogins, MAX_FAILURES } from './failed_logins.ts';
import type { Nonces } from './nonces.ts';
import type { FailureReason, Refusal, Verdict } from './verdict.ts';

interface AuthenticationOptions {
  rootKeys: readonly string[];
  viewerKeys?: readonly string[] | undefined;
  clients: ClientDirectory;
  nonces: Nonces;
  failures: FailedLogins;
  recorder: { authenticationFailed(reason: FailureReason): void; authenticationSlowed(): void };
  proxies: Proxies;
  md5: boolean;
  log: Log;
}

const CREDENTIALS: Record<Role, string> = {
  client: "a client's credentials (its token and secret, or its token alone if it has none)",
  root: 'the root credentials (user root and the root key with Digest, or the root key as the user with Basic)',
  viewer:
    'the viewer credentials (user viewer and the viewer key with Digest, or the viewer key as the user with Basic)',
};

const UNKNOWN_SCHEME: Refusal = { reason: 'unknown_scheme' };

/**
 * Reasons of a refusal that the caller must not learn, because they show which users exist. The caller gets the text
 * WRONG instead.
 */
const UNPROVED: ReadonlySet<Refusal['reason']> = new Set(['unknown_user', 'wrong_secret']);
const WRONG = 'the credentials that came with this request are wrong';
const CLIENT_HINT = 'the user of a client is its token, not its name, and the password its secret';

/**
 * Identifies callers by Basic or Digest. Once an address has failed too often, it gets too_many_failures for wrong
 * credentials; correct ones are still accepted.
 */
export class Authentication {
  readonly credentials: Credentials;
  readonly #clients: ClientDirectory;
  readonly #basic: Basic;
  readonly #digest: Digest;
  readonly #parts: Pick<AuthenticationOptions, 'failures' | 'recorder' | 'proxies' | 'log'>;
  #reportAgainAtMs = 0;

  constructor({ rootKeys, viewerKeys, clients, nonces, md5, ...parts }: AuthenticationOptions) {
    this.#parts = parts;
    this.#clients = clients;
    this.credentials = new Credentials(rootKeys, clients, viewerKeys);
    this.#basic = new Basic(this.credentials, clients);
    this.#digest = new Digest(this.credentials, nonces, md5);
  }

  /**
   * Resolves with the caller of a request, whatever its role is. `roles` are the roles that may make the API call; they
   * are only named in the text of the error unauthenticated. Throws unauthenticated, too_many_failures,
   * too_many_nonces, bad_header or StorageUnavailable.
   */
  async callerOf(request: IncomingMessage, roles: readonly Role[]): Promise<Caller> {
    const verdict = await this.#judge(request);
    if (verdict && 'role' in verdict) return verdict;
    if (verdict && verdict.reason !== 'stale') await this.#countFailure(request, verdict);
    throw await this.#unauthenticated(roles, verdict);
  }

  /** Resolves with the error for a caller whose role may not make the call. `roles` are the roles that may. */
  async wrongRole({ role }: Caller, roles: readonly Role[], code: Dialect['wrongRole']): Promise<BusError> {
    // `code` is `forbidden` or, in compatibility mode, `unauthenticated`, as the Ruby Routemaster answered. A viewer
    // always gets `forbidden`, because the Ruby Routemaster had no viewers.
    if (code === 'forbidden' || role === 'viewer') {
      const detail = `the credentials are right, but this call takes ${this.#needed(roles)}`;
      return new BusError('forbidden', detail);
    }
    return this.#unauthenticated(roles, undefined);
  }

  /**
   * Judges the credentials of a request again, because they may have become invalid since `callerOf`. Resolves with the
   * caller and its current scopes, read from Redis or from a cache that is up to a second old. Throws unauthenticated
   * or StorageUnavailable.
   */
  async judgeAgain(request: IncomingMessage, caller: Caller, from: 'redis' | 'cache'): Promise<Caller> {
    // The keys of root and viewer change only with a restart, so they are not checked again.
    if (caller.role !== 'client') return caller;
    if (from === 'redis') this.#clients.forget(caller.token);
    const scheme = schemeOf(request);
    const verdict = await (scheme === 'basic'
      ? this.#basic.judge(request)
      : this.#digest.judgeAgain(request));
    if ('role' in verdict) return verdict;
    throw await this.#unauthenticated([caller.role], verdict);
  }

  /** Resolves with the caller. Throws unauthenticated, too_many_failures or StorageUnavailable. */
  async login(request: IncomingMessage, user: string, password: string): Promise<Caller> {
    const verdict = await this.credentials.checkLogin(user, password);
    if ('role' in verdict) return verdict;
    await this.#countFailure(request, verdict);
    throw new BusError('unauthenticated', 'there is no such user, or the password is wrong');
  }

  /**
   * Resolves with undefined for a request without credentials. This is no failed authentication, because every Digest
   * exchange begins with such a request.
   */
  async #judge(request: IncomingMessage): Promise<Verdict | undefined> {
    const scheme = schemeOf(request);
    if (scheme === 'basic') return await this.#basic.judge(request);
    if (scheme !== 'digest') return scheme === '' ? undefined : UNKNOWN_SCHEME;
    try {
      return await this.#digest.judge(request);
    } catch (error) {
      if (error instanceof BusError && error.code === 'bad_header')
        await this.#countFailure(request, { reason: 'malformed' });
      throw error;
    }
  }

  /** Counts and logs a failed authentication. Throws too_many_failures if the address has failed too often. */
  async #countFailure(request: IncomingMessage, { reason, client, stale }: Refusal): Promise<void> {
    const { failures, recorder, proxies, log } = this.#parts;
    const address = proxies.addressOf(request);
    const line = { reason, method: request.method, path: loggedPath(request), remoteAddress: address };
    recorder.authenticationFailed(reason as FailureReason);
    if ((await failures.count(sourceOf(address))) <= MAX_FAILURES)
      return log.info({ ...line, ...(client && { client }) }, 'authentication failed');
    // With `stale`, the request has the right secret, but repeats a nonce use: a nonce with its `nc`. With
    // `no_secret`, a client without a secret has the right token, but chose Digest. In both cases the caller gets a new
    // challenge, however often its address has failed.
    if (stale || reason === 'no_secret') return;
    recorder.authenticationSlowed();
    const leftMs = failures.leftMs();
    if (clock.monotonicMs() >= this.#reportAgainAtMs) {
      this.#reportAgainAtMs = clock.monotonicMs() + leftMs;
      log.warn(line, 'too many failures from an address; refused with 429, and not logged');
    }
    throw tooManyFailures(leftMs);
  }

  async #unauthenticated(roles: readonly Role[], refusal: Refusal | undefined): Promise<BusError> {
    // A client without a secret cannot use Digest. Programs that choose a scheme by the challenges, such as
    // `curl --anyauth`, prefer Digest, and try Basic only when Digest is not offered any more.
    const usesDigest = refusal?.reason !== 'no_secret';
    const digest = usesDigest ? await this.#digest.challenges(refusal?.stale ?? false) : [];
    const challenges = [...digest, this.#basic.challenge()];
    const wrong = roles.includes('client') ? `${WRONG}: ${CLIENT_HINT}` : WRONG;
    const advice = refusal?.advice ?? (refusal && UNPROVED.has(refusal.reason) ? wrong : undefined);
    const detail = [`this call takes ${this.#needed(roles)}`, advice].filter(Boolean).join('; ');
    return new BusError('unauthenticated', detail, { headers: { 'WWW-Authenticate': challenges } });
  }

  #needed(roles: readonly Role[]): string {
    const there = roles.filter((role) => role !== 'viewer' || this.credentials.hasViewer);
    return there.map((role) => CREDENTIALS[role]).join(', or ');
  }
}

function tooManyFailures(leftMs: number): BusError {
  const detail =
    'too many requests with wrong credentials came from your address within a minute; right ones are let in at any time';
  return new BusError('too_many_failures', detail, {
    headers: { 'Retry-After': String(Math.ceil(leftMs / 1000)) },
  });
}
