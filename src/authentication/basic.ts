import type { IncomingMessage } from 'node:http';
import type { Request } from 'express';
import { BasicStrategy } from 'passport-http';
import { credentialsOf } from './authorization.ts';
import { type Attempt, end, type Judged, type Refusal } from './caller.ts';
import { REALM } from './client.ts';
import type { Credentials, Login } from './credentials.ts';

const NO_PAIR: Refusal = { reason: 'malformed', advice: 'after Basic comes user:password in Base64' };

type CheckPassword = (login: Login, done: Judged) => void;

/**
 * Basic as in RFC 7617. passport-http's own refuses empty passwords, which token-only clients send, cuts passwords at
 * their first colon, and decodes with the deprecated `new Buffer`.
 */
export class Basic extends BasicStrategy implements Attempt {
  // Passport calls `authenticate` on an object derived from this one, to which it adds these; hence nothing here has a #.
  declare readonly success: Attempt['success'];
  declare readonly fail: Attempt['fail'];
  declare readonly error: Attempt['error'];
  /** What the constructor of passport-http's class is given, by its name for it. */
  declare readonly _verify: CheckPassword;
  private readonly credentials: Credentials;

  constructor(credentials: Credentials) {
    const check: CheckPassword = (login, done) => credentials.checkPassword(login, done);
    // It only keeps the function.
    super({ realm: REALM }, check as unknown as ConstructorParameters<typeof BasicStrategy>[1]);
    this.credentials = credentials;
  }

  /** As passport calls it, for the routes of Express. */
  override authenticate(req: Request): void {
    this.judge(req, (error, verdict) => end(this, error, verdict));
  }

  /** The same without passport, for a plain publish. */
  judge(req: IncomingMessage, done: Judged): void {
    const sent = req.headers.authorization ?? '';
    const caller = this.credentials.proved(sent);
    if (caller) return void done(null, caller);
    const decoded = Buffer.from(credentialsOf(req), 'base64').toString();
    const colon = decoded.indexOf(':');
    if (colon < 0) done(null, NO_PAIR);
    else this._verify({ user: decoded.slice(0, colon), password: decoded.slice(colon + 1), sent }, done);
  }

  challenge(): string {
    return `Basic realm="${REALM}", charset="UTF-8"`;
  }
}
