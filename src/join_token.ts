/**
 * A join is a subscriber whose token is `join:`, its name, a colon and the token of its client. No client has a
 * token with a colon, since HTTP Basic could not carry it.
 */
const JOIN_TOKEN = /^join:([^:]*):(.*)$/s;

export function joinToken(name: string, client: string): string {
  return `join:${name}:${client}`;
}

/** Returns the name of a join and the token of its client; undefined for the token of a client. */
export function readJoinToken(token: string): { name: string; client: string } | undefined {
  const [, name, client] = JOIN_TOKEN.exec(token) ?? [];
  return name === undefined || client === undefined ? undefined : { name, client };
}

export function isJoinToken(token: string): boolean {
  return token.startsWith('join:');
}

/** Returns the token of the client behind a subscriber's token: the same or, for a join, that of its client. */
export function ownerOf(token: string): string {
  return readJoinToken(token)?.client ?? token;
}
