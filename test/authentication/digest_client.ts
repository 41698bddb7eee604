import { createHash } from 'node:crypto';

/** The parameters of a challenge, or of an answer to one. */
export type Parameters = Record<string, string>;

export function parametersOf(challenge: string): Parameters {
  const pairs = challenge.slice('Digest '.length).matchAll(/([\w*]+)=(?:"([^"]*)"|([^,]*))/g);
  return Object.fromEntries([...pairs].map(([, name, quoted, plain]) => [name, quoted ?? plain]));
}

/** Returns the challenge for this algorithm, among several. */
export function challengeFor(algorithm: string, challenges: string[]): Parameters {
  const found = challenges.map(parametersOf).find((challenge) => challenge.algorithm === algorithm);
  if (!found) throw new Error(`no challenge for ${algorithm} in ${challenges.join('; ')}`);
  return found;
}

interface Wanted {
  user: string;
  secret: string;
  uri: string;
  method?: string;
  /** The count of this request. */
  count?: number;
}

/** Returns the right answer to a challenge. It is written from RFC 7616, not from the code of the bus. */
export function answerParameters(
  challenge: Parameters,
  { user, secret, uri, method = 'GET', count = 1 }: Wanted,
): Parameters {
  const { realm = '', nonce = '', algorithm = 'MD5' } = challenge;
  const digest = (text: string) =>
    createHash(algorithm.replace('-', '').toLowerCase()).update(text).digest('hex');
  const nc = count.toString(16).padStart(8, '0');
  const [cnonce, qop] = ['f2/wE4q74E6zIJEt', 'auth'];
  const ha1 = digest(`${user}:${realm}:${secret}`);
  const response = digest(`${ha1}:${nonce}:${nc}:${cnonce}:${qop}:${digest(`${method}:${uri}`)}`);
  return { username: user, realm, uri, algorithm, nonce, nc, cnonce, qop, response };
}

/** Returns the header with these parameters; undefined ones are left out. */
export function header(parameters: Record<string, string | undefined>): string {
  const plain = new Set(['algorithm', 'nc', 'qop']);
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return `Digest ${pairs.map(([name, value]) => (plain.has(name) ? `${name}=${value}` : `${name}="${value}"`)).join(', ')}`;
}
