import type { Request, RequestHandler } from 'express';
import passport from 'passport';
import { BusError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { ClientDirectory } from '../../models/client_directory.ts';
import { schemeOf } from './authorization.ts';
import { Basic } from './basic.ts';
import { type Caller, type Refusal, type Role, setCaller } from './caller.ts';
import { Credentials } from './credentials.ts';
import { Digest } from './digest.ts';
import { Nonces } from './nonces.ts';

export interface AuthenticationOptions {
  rootKey: string;
  clients: ClientDirectory;
  log: Log;
}

const CREDENTIALS: Record<Role, string> = {
  client: "a client's credentials (its token and secret)",
  root: 'the root credentials (user root and the root key with Digest, or the root key as the user with Basic)',
};

/** Proves who makes a request, by Basic or Digest. */
export class Authentication {
  readonly #passport = new passport.Passport();
  readonly #credentials: Credentials;
  readonly #basic: Basic;
  readonly #digest: Digest;
  readonly #log: Log;

  /** Takes some 50 ms of CPU: one is enough for a process. */
  constructor({ rootKey, clients, log }: AuthenticationOptions) {
    this.#credentials = new Credentials(rootKey, clients);
    this.#basic = new Basic(this.#credentials);
    this.#digest = new Digest(this.#credentials, new Nonces(rootKey));
    this.#passport.use('basic', this.#basic).use('digest', this.#digest);
    this.#log = log;
  }

  /**
   * Lets requests of these roles through to handlers that may ask `callerOf`. Others end in a BusError: unauthenticated
   * with the challenges, forbidden for the other role, bad_header; or in what the lookup of the client threw.
   */
  require(...roles: Role[]): RequestHandler {
    return (req, res, next) => {
      const scheme = schemeOf(req);
      if (scheme !== 'basic' && scheme !== 'digest') {
        return next(this.#refuse(req, roles, scheme ? { message: 'unknown scheme' } : undefined));
      }
      // passport runs the one strategy that the scheme asks for, on an object derived from it for this request alone.
      const done = (error: unknown, caller?: Caller | false | null, refusal?: Refusal) => {
        if (error) return next(error);
        if (!caller) return next(this.#refuse(req, roles, refusal));
        if (!roles.includes(caller.role)) return next(forbidden(roles));
        setCaller(req, caller);
        next();
      };
      this.#passport.authenticate(scheme, { session: false }, done as passport.AuthenticateCallback)(
        req,
        res,
        next,
      );
    };
  }

  /** Whether it is the root key, which nothing else may be named. */
  isRootKey(text: string): boolean {
    return this.#credentials.isRootKey(text);
  }

  /** Without a refusal there were no credentials, which is how Digest begins: no failure, and no line in the log. */
  #refuse(req: Request, roles: Role[], refusal?: Refusal): BusError {
    if (refusal && !refusal.stale) {
      const { message: reason, client } = refusal;
      this.#log.info({ reason, remoteAddress: req.ip, ...(client && { client }) }, 'authentication failed');
    }
    const challenges = [...this.#digest.challenges(refusal?.stale ?? false), this.#basic.challenge()];
    const detail = [`this call takes ${needed(roles)}`, refusal?.advice].filter(Boolean).join('; ');
    return new BusError('unauthenticated', detail, { headers: { 'WWW-Authenticate': challenges } });
  }
}

function forbidden(roles: Role[]): BusError {
  return new BusError('forbidden', `the credentials are right, but this call takes ${needed(roles)}`);
}

function needed(roles: Role[]): string {
  return roles.map((role) => CREDENTIALS[role]).join(', or ');
}
