import type { IncomingMessage } from 'node:http';
import { BasicStrategy } from 'passport-http';
import { credentialsOf, notByPassport } from './authorization.ts';
import type { Credentials } from './credentials.ts';
import { REALM } from './digests.ts';
import type { Refusal, Verdict } from './verdict.ts';

const NO_PAIR: Refusal = { reason: 'malformed', advice: 'after Basic comes user:password in Base64' };

/**
 * Basic authentication (RFC 7617). `judge` replaces `authenticate` of passport-http, which has three faults: it
 * refuses empty passwords, cuts passwords at their first colon, and uses the deprecated `new Buffer`.
 */
export class Basic extends BasicStrategy {
  readonly #credentials: Credentials;

  constructor(credentials: Credentials) {
    super({ realm: REALM }, notByPassport);
    this.#credentials = credentials;
  }

  override authenticate = notByPassport;

  /** Checks the credentials of a request. Passes on the errors of looking up the client. */
  judge(request: IncomingMessage): Verdict | Promise<Verdict> {
    const decoded = Buffer.from(credentialsOf(request), 'base64').toString();
    const colon = decoded.indexOf(':');
    if (colon < 0) return NO_PAIR;
    return this.#credentials.checkPassword(decoded.slice(0, colon), decoded.slice(colon + 1));
  }

  challenge(): string {
    return `Basic realm="${REALM}", charset="UTF-8"`;
  }
}
