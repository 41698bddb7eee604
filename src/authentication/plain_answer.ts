import type { DigestAnswer } from './digest_answer.ts';

const QUOTE = '"'.charCodeAt(0);
const COMMA = ','.charCodeAt(0);
const SPACE = ' '.charCodeAt(0);
const TOKEN = /^[\w-]+$/;
const NC = /^[0-9a-f]{8}$/;
const RESPONSE = /^[0-9a-f]{32,64}$/;
const ALGORITHMS: readonly (string | undefined)[] = ['SHA-256', 'MD5', undefined];

/**
 * Reads a client's answer as nearly all of them write it: lower-case names, each once, no escapes, and nothing that is amiss.
 * Undefined for others, which `readAnswer` reads in general or refuses. (Of a publish by Digest it takes 1.7 µs less, a
 * twentieth.)
 */
export function plainAnswer(text: string): DigestAnswer | undefined {
  if (text.includes('\\')) return undefined;
  let username: string | undefined;
  let realm: string | undefined;
  let nonce: string | undefined;
  let uri: string | undefined;
  let algorithm: string | undefined;
  let qop: string | undefined;
  let nc: string | undefined;
  let cnonce: string | undefined;
  let response: string | undefined;
  let parameters = 0;
  for (let at = 0; at < text.length; parameters++) {
    const equals = text.indexOf('=', at);
    if (equals < 0) return undefined;
    const isQuoted = text.charCodeAt(equals + 1) === QUOTE;
    const start = isQuoted ? equals + 2 : equals + 1;
    const found = text.indexOf(isQuoted ? '"' : ',', start);
    if (found < 0 && isQuoted) return undefined;
    const end = found < 0 ? text.length : found;
    const value = text.slice(start, end);
    if (!isQuoted && !TOKEN.test(value)) return undefined;
    switch (text.slice(at, equals)) {
      case 'username':
        username = value;
        break;
      case 'realm':
        realm = value;
        break;
      case 'nonce':
        nonce = value;
        break;
      case 'uri':
        uri = value;
        break;
      case 'algorithm':
        algorithm = value;
        break;
      case 'qop':
        qop = value;
        break;
      case 'nc':
        nc = value;
        break;
      case 'cnonce':
        cnonce = value;
        break;
      case 'response':
        response = value;
        break;
      default:
        return undefined;
    }
    at = isQuoted ? end + 1 : end;
    if (at < text.length && text.charCodeAt(at++) !== COMMA) return undefined;
    while (text.charCodeAt(at) === SPACE) at++;
  }
  // One that is there twice makes one more than these.
  if (parameters !== (algorithm === undefined ? 8 : 9) || !ALGORITHMS.includes(algorithm)) return undefined;
  if (!username || !realm || !nonce || !uri || qop !== 'auth' || !nc || !cnonce || !response)
    return undefined;
  if (!NC.test(nc) || !RESPONSE.test(response)) return undefined;
  return { username, realm, nonce, uri, algorithm: algorithm ?? 'MD5', nc, cnonce, response };
}
