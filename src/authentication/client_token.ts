import { credentialSuffix, tokenSuffix } from '../ids.ts';

export const CLIENT_NAME = /^[a-z0-9_-]{1,64}$/;
/** Matches every valid token: chosen by a client, made by this bus, or made by the Ruby Routemaster. */
export const CLIENT_TOKEN = /^[a-z0-9_-]{1,64}$/;
const MAX_TOKEN_LENGTH = 64;

/**
 * Returns the maximum length of a client's name. The bus makes a token from the name and a suffix, so the name must be
 * shorter than a token may be.
 */
export function maxNameLength(hasSecret: boolean): number {
  return MAX_TOKEN_LENGTH - (hasSecret ? madeToken('') : credentialToken('')).length;
}

/** Makes the token of a client with a secret. The token is public, and no other client has it. */
export function madeToken(name: string): string {
  return `${name}--${tokenSuffix()}`;
}

/** Makes a token that is a credential by itself, as the Ruby Routemaster made them. */
export function credentialToken(name: string): string {
  return `${name}--${credentialSuffix()}`;
}

/**
 * Returns the name of the client in a token that the bus made: the part before the first `--`. Returns 'unnamed' for
 * other tokens.
 */
export function nameIn(token: string): string {
  const name = token.split('--', 1)[0] ?? '';
  return name !== token && CLIENT_NAME.test(name) ? name : 'unnamed';
}
