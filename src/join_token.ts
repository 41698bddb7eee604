/**
 * Matches the token of a join. A join is a subscriber whose token is `join:`, its name, a colon and the token of its
 * client. Tokens of clients have no colon, since HTTP Basic could not carry it.
 */
const JOIN_TOKEN = /^join:([^:]*):(.*)$/s;

export function joinToken(name: string, client: string): string {
  return `join:${name}:${client}`;
}

/** Returns the name of a join and the token of its client. Returns undefined if the token is that of a client. */
export function readJoinToken(token: string): { name: string; client: string } | undefined {
  const [, name, client] = JOIN_TOKEN.exec(token) ?? [];
  return name === undefined || client === undefined ? undefined : { name, client };
}

export function isJoinToken(token: string): boolean {
  return token.startsWith('join:');
}

/**
 * Returns the token of the client that a subscriber belongs to. If the subscriber is a client, this is its own token.
 * If it is a join, it is the token of the join's client.
 */
export function ownerOf(token: string): string {
  return readJoinToken(token)?.client ?? token;
}
