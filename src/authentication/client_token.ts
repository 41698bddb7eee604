import { credentialSuffix, tokenSuffix } from '../ids.ts';

export const CLIENT_NAME = /^[a-z0-9_-]{1,64}$/;
/**
 * Matches the tokens of clients in Redis, including those from a Ruby Routemaster. Clients of ROUTEMASTER_CLIENTS,
 * which are not in Redis, can have other tokens.
 */
export const CLIENT_TOKEN = /^[a-z0-9_-]{1,64}$/;
const MAX_TOKEN_LENGTH = 64;

/**
 * Returns the maximum length of a client's name. The token is the name and a suffix, which is longer if there is no
 * secret.
 */
export function maxNameLength(hasSecret: boolean): number {
  return MAX_TOKEN_LENGTH - (hasSecret ? madeToken('') : credentialToken('')).length;
}

/** Makes the token of a client that also has a secret. The token is unique, and public: it proves nothing. */
export function madeToken(name: string): string {
  return `${name}--${tokenSuffix()}`;
}

/** Makes the token of a client without a secret. The token is the client's credential, as in the Ruby Routemaster. */
export function credentialToken(name: string): string {
  return `${name}--${credentialSuffix()}`;
}

/**
 * Returns the name in a token that the bus made: the part before the first `--`. Returns 'unnamed' for any other token.
 */
export function nameIn(token: string): string {
  const name = token.split('--', 1)[0] ?? '';
  return name !== token && CLIENT_NAME.test(name) ? name : 'unnamed';
}
