import type { Request, RequestHandler } from 'express';
import { BusError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { ClientDirectory } from '../../models/client_directory.ts';
import { schemeOf } from './authorization.ts';
import { Basic } from './basic.ts';
import { type Refusal, type Role, setCaller } from './caller.ts';
import { Credentials } from './credentials.ts';
import { Digest } from './digest.ts';
import { Nonces } from './nonces.ts';

export interface AuthenticationOptions {
  rootKey: string;
  clients: ClientDirectory;
  log: Log;
}

const CREDENTIALS: Record<Role, string> = {
  client: "a client's credentials (its token and secret, or its token alone if it has none)",
  root: 'the root credentials (user root and the root key with Digest, or the root key as the user with Basic)',
};

/** Proves who makes a request, by Basic or Digest. */
export class Authentication {
  readonly #credentials: Credentials;
  readonly #basic: Basic;
  readonly #digest: Digest;
  readonly #log: Log;

  /** Takes some 50 ms of CPU: one is enough for a process. */
  constructor({ rootKey, clients, log }: AuthenticationOptions) {
    this.#credentials = new Credentials(rootKey, clients);
    this.#basic = new Basic(this.#credentials);
    this.#digest = new Digest(this.#credentials, new Nonces(rootKey));
    this.#log = log;
  }

  /**
   * Lets requests of these roles through to handlers that may ask `callerOf`. Others end in a BusError: unauthenticated
   * with the challenges, forbidden for the other role, bad_header; or in what the lookup of the client threw.
   */
  require(...roles: Role[]): RequestHandler {
    return (req, _res, next) => {
      const scheme = schemeOf(req);
      if (scheme !== 'basic' && scheme !== 'digest') {
        return next(this.#refuse(req, roles, scheme ? { message: 'unknown scheme' } : undefined));
      }
      // Called without passport, which derives an object from the strategy for each request: with 64 requests in flight
      // these outlived the young generation, which cost a publish a fifth of its CPU and trebled its p99.
      const strategy = scheme === 'basic' ? this.#basic : this.#digest;
      strategy.judge(req, (error, verdict) => {
        if (error || !verdict) return next(error);
        if (!('role' in verdict)) return next(this.#refuse(req, roles, verdict));
        if (!roles.includes(verdict.role)) return next(forbidden(roles));
        setCaller(req, verdict);
        next();
      });
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
      const call = { method: req.method, path: req.path, remoteAddress: req.ip };
      this.#log.info({ reason, ...call, ...(client && { client }) }, 'authentication failed');
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
