import { customAlphabet, nanoid } from 'nanoid';

/** Returns random URL-safe Base64. It never begins with `-`, because a command line would take it for an option. */
function random(length: number): string {
  const made = nanoid(length);
  return made.startsWith('-') ? random(length) : made;
}

/** The id of a batch or a worker: 20 characters of URL-safe Base64, 120 bits. */
export const uid = (): string => random(20);
export const UID = /^[\w-]{20}$/;

export const uids = (count: number): string[] => Array.from({ length: count }, uid);

/** The prefix of the ids of spare workers. No other id has a dot. */
const SPARE = 'spare.';

/**
 * Returns ids for `count` spare workers, which work only while the other workers of their thread hang. The metrics
 * recognize spare workers by these ids, and count them separately.
 */
export const spareUids = (count: number): string[] => uids(count).map((id) => `${SPARE}${id}`);

export const isSpareWorker = (id: string): boolean => id.startsWith(SPARE);

/**
 * The beginning (16 random characters) of all batch ids that one script call makes; the script appends a counter. A
 * script cannot make random ids by itself, because Redis seeds its random generator with the same number in every call.
 */
export const uidSeed = (): string => random(16);

/** The id of an event that got none from its publisher: 16 characters of URL-safe Base64, 96 bits. */
export const eventId = (): string => random(16);

/** Eight random spaces and tabs. `aroundTimestamp` (publishing/event.ts) says what they are for. */
export const randomSpaces = customAlphabet(' \t', 8);

/** The random part of a client's token: 20 characters of `[a-z0-9]`, 103 bits. */
export const tokenSuffix = customAlphabet('abcdefghijklmnopqrstuvwxyz0123456789', 20);

/** The random part of a token that is a credential: 32 hexadecimal digits, 128 bits. */
export const credentialSuffix = customAlphabet('0123456789abcdef', 32);

/** A client's secret: 32 characters of URL-safe Base64, 192 bits. */
export const secret = (): string => random(32);

/**
 * Matches the token of a join: `join:`, its name, a colon and the token of its client. It does not match the token of a
 * client, which never contains a colon (in HTTP Basic, a colon ends the user name).
 */
const JOIN_TOKEN = /^join:([^:]*):(.*)$/s;

export function joinToken(name: string, client: string): string {
  return `join:${name}:${client}`;
}

/**
 * Splits the token of a join into the join's name and its client's token. Returns undefined for a client's own token.
 */
export function readJoinToken(token: string): { name: string; client: string } | undefined {
  const [, name, client] = JOIN_TOKEN.exec(token) ?? [];
  return name === undefined || client === undefined ? undefined : { name, client };
}

export function isJoinToken(token: string): boolean {
  return token.startsWith('join:');
}

/**
 * Returns the client of a subscriber: for a join, the client that the join belongs to. Any other subscriber is itself a
 * client.
 */
export function ownerOf(token: string): string {
  return readJoinToken(token)?.client ?? token;
}

/**
 * The name under which the metrics add up the counts of removed topics and subscribers. No topic and no client has this
 * name: the API accepts no parentheses in names and tokens, and ROUTEMASTER_CLIENTS is refused if it contains
 * `(removed)`.
 */
export const REMOVED = '(removed)';
