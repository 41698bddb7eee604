import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import passport from 'passport';
import { BusError } from '../errors.ts';
import { pathOf } from '../http/problems.ts';
import type { Log } from '../log.ts';
import { schemeOf } from './authorization.ts';
import { Basic } from './basic.ts';
import {
  type Caller,
  type FailureReason,
  type Judged,
  type Refusal,
  type Role,
  setCaller,
  type Verdict,
} from './caller.ts';
import type { ClientDirectory } from './client_directory.ts';
import { Credentials } from './credentials.ts';
import { Digest, repeatedCount } from './digest.ts';
import type { Slowing } from './login_limiter.ts';
import type { NonceUse } from './nonce_uses.ts';
import type { Nonces } from './nonces.ts';

export interface AuthenticationOptions {
  rootKey: string;
  clients: ClientDirectory;
  nonces: Nonces;
  slowing: Slowing;
  /** Whether Digest may use MD5. */
  md5: boolean;
  log: Log;
}

const CREDENTIALS: Record<Role, string> = {
  client: "a client's credentials (its token and secret, or its token alone if it has none)",
  root: 'the root credentials (user root and the root key with Digest, or the root key as the user with Basic)',
};

/**
 * Called with the error that is to be answered, or with who makes the request. `count`: what proves it, and is still to be taken.
 */
export type Identified = (error: unknown, caller?: Caller, count?: NonceUse) => void;

type Scheme = 'basic' | 'digest';

/** Runs the strategy of a scheme. */
type Run = (scheme: Scheme, done: Judged) => void;

/** Proves who makes a request, by Basic or Digest. */
export class Authentication {
  readonly #credentials: Credentials;
  readonly #basic: Basic;
  readonly #digest: Digest;
  readonly #passport = new passport.Passport();
  readonly #nonces: Nonces;
  readonly #slowing: Slowing;
  readonly #log: Log;

  constructor({ rootKey, clients, nonces, slowing, md5, log }: AuthenticationOptions) {
    this.#credentials = new Credentials(rootKey, clients);
    this.#basic = new Basic(this.#credentials);
    this.#digest = new Digest(this.#credentials, nonces, { md5 });
    this.#passport.use('basic', this.#basic).use('digest', this.#digest);
    this.#nonces = nonces;
    this.#slowing = slowing;
    this.#log = log;
  }

  /**
   * Lets requests of these roles through to handlers that may ask `callerOf`. Others end in a BusError: unauthenticated
   * with the challenges, too_many_failures, forbidden for the other role, bad_header; or in what the lookup of the client threw.
   */
  require(...roles: Role[]): RequestHandler {
    return (req, res, next) => {
      const run: Run = (scheme, done) => {
        const ended = (error: unknown, caller?: Caller | false | null, refusal?: unknown) =>
          done(error, caller || (refusal as Refusal | undefined));
        this.#passport.authenticate(scheme, { session: false }, ended)(req, res, next);
      };
      this.#identify(req, roles, run, (error, caller) => {
        if (!caller) return next(error);
        setCaller(req, caller);
        next();
      });
    };
  }

  /**
   * Calls back with who makes the request, if it is one of these roles, or with the error as above. Without passport, which derives
   * an object from the strategy for each request: with 64 requests in flight these outlived the young generation, which cost a
   * publish a fifth of its CPU and trebled its p99. With `later`, the count of a Digest is not taken: it is for the caller to do,
   * before anything becomes of the request.
   */
  identify(req: IncomingMessage, roles: readonly Role[], later: boolean, done: Identified): void {
    const run: Run = (scheme, judged) =>
      scheme === 'basic' ? this.#basic.judge(req, judged) : this.#digest.judge(req, judged, later);
    this.#identify(req, roles, run, done);
  }

  /** Takes a count that `identify` handed on. Whether it was new. Throws StorageUnavailable. */
  take(count: NonceUse): Promise<boolean> {
    return this.#nonces.use(count);
  }

  /** The error that is to be answered where the count of a right answer was taken before. Throws StorageUnavailable. */
  repeated(req: IncomingMessage, caller: Caller): Promise<unknown> {
    return new Promise((resolve) => this.#refuse(req, [caller.role], repeatedCount(caller), resolve));
  }

  /** Whether it is the root key, which nothing else may be named. */
  isRootKey(text: string): boolean {
    return this.#credentials.isRootKey(text);
  }

  #identify(req: IncomingMessage, roles: readonly Role[], run: Run, done: Identified): void {
    const scheme = schemeOf(req);
    if (scheme !== 'basic' && scheme !== 'digest') {
      return void this.#refuse(req, roles, scheme ? { reason: 'unknown_scheme' } : undefined, done);
    }
    run(scheme, (error: unknown, verdict?: Verdict, count?: NonceUse) => {
      if (error || !verdict) this.#fail(req, error, done);
      else if (!('role' in verdict)) this.#refuse(req, roles, verdict, done);
      else if (!roles.includes(verdict.role)) done(forbidden(roles));
      else done(null, verdict, count);
    });
  }

  /** A header that cannot be read is a failure like others; that Redis is away is none. */
  #fail(req: IncomingMessage, error: unknown, done: Identified): void {
    if (!(error instanceof BusError) || error.code !== 'bad_header') return void done(error);
    this.#count(req, { reason: 'malformed' }, () => error).then(done, done);
  }

  /** Without a refusal there were no credentials, which is how Digest begins: no failure, and no line in the log. */
  #refuse(
    req: IncomingMessage,
    roles: readonly Role[],
    refusal: Refusal | undefined,
    done: Identified,
  ): void {
    const refused = () => this.#unauthenticated(roles, refusal);
    if (refusal && refusal.reason !== 'stale') this.#count(req, refusal, refused).then(done, done);
    else if (this.#nonces.ready) done(refused());
    else this.#nonces.prepare().then(() => done(refused()), done);
  }

  /** Resolves with the error that is to be answered. Throws StorageUnavailable if there is nothing to make a challenge with. */
  async #count(req: IncomingMessage, refusal: Refusal, refused: () => BusError): Promise<BusError> {
    const { client, reason } = refusal;
    const { address, slowed, tell } = await this.#slowing.failed(req, reason as FailureReason);
    const line = { reason, method: req.method, path: pathOf(req), remoteAddress: address };
    if (!slowed) this.#log.info({ ...line, ...(client && { client }) }, 'authentication failed');
    // Once a minute: who tries a thousand times a second does not fill the log.
    else if (tell)
      this.#log.warn(line, 'too many failures from an address; refused with 429, and not logged');
    // What was right but for its nonce goes on with another, whatever others at its address do.
    if (slowed && !refusal.stale) return slowed;
    if (!this.#nonces.ready) await this.#nonces.prepare();
    return refused();
  }

  #unauthenticated(roles: readonly Role[], refusal: Refusal | undefined): BusError {
    const challenges = [...this.#digest.challenges(refusal?.stale ?? false), this.#basic.challenge()];
    const advice = refusal?.advice ?? (refusal && UNPROVED.has(refusal.reason) ? WRONG : undefined);
    const detail = [`this call takes ${needed(roles)}`, advice].filter(Boolean).join('; ');
    return new BusError('unauthenticated', detail, { headers: { 'WWW-Authenticate': challenges } });
  }
}

/** Which of the two it was is no stranger's business. */
const UNPROVED: ReadonlySet<Refusal['reason']> = new Set(['unknown_user', 'wrong_secret']);
const WRONG = 'the credentials that came with this request are wrong';

function forbidden(roles: readonly Role[]): BusError {
  return new BusError('forbidden', `the credentials are right, but this call takes ${needed(roles)}`);
}

function needed(roles: readonly Role[]): string {
  return roles.map((role) => CREDENTIALS[role]).join(', or ');
}
