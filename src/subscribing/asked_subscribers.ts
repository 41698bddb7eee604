import { z } from 'zod';
import type { PublicNames } from '../authentication/public_names.ts';
import { joinToken, ownerOf, readJoinToken } from '../ids.ts';
import type { Caller } from '../routing/caller.ts';
import { badParameter, clientNamed, ONCE, whose } from '../routing/query.ts';
import { TOPIC_NAME, TOPIC_NAME_RULE } from '../routing/topic_name.ts';
import type { Subscribers } from './subscriber.ts';

export interface AskedSubscribersParts {
  subscribers: Pick<Subscribers, 'owners'>;
  joins: { tokens(client: string): Promise<string[]> };
  publicNames: PublicNames;
}

const JOIN_RULE = `must be the name of a join, which has ${TOPIC_NAME_RULE}`;

/** The query parameters that select subscribers. `what` names the entries of the listing, such as `batches`. */
export const askedFields = (what: string) => ({
  subscriber: whose(what),
  join: z.string(ONCE).regex(TOPIC_NAME, JOIN_RULE).optional().describe('Of one join, by its name.'),
});

interface Asked {
  subscriber?: string | undefined;
  join?: string | undefined;
}

/** Returns the tokens of a client and of its joins. If `join` is given, returns only the token of this join. */
export async function subscribersOf(
  { joins }: Pick<AskedSubscribersParts, 'joins'>,
  client: string,
  join?: string,
): Promise<string[]> {
  return join === undefined ? [client, ...(await joins.tokens(client))] : [joinToken(join, client)];
}

/**
 * Returns the tokens of a client and of its joins. For root and viewers, returns undefined, which stands for all
 * subscribers.
 */
export async function ownSubscribers(
  parts: Pick<AskedSubscribersParts, 'joins'>,
  caller: Caller,
): Promise<string[] | undefined> {
  return caller.role === 'client' ? subscribersOf(parts, caller.token) : undefined;
}

/**
 * Returns the subscribers that the query of a listing asks for.
 * - `tokens`: their tokens, or undefined for all subscribers. The list is empty if nobody has the given public name.
 * - `priceInCalls`: how many calls it costs in the rate limit to search for a public name. This is 0 unless a viewer
 *   gives a public name.
 *
 * Throws bad_query if a client gives `subscriber`, or if root or a viewer gives `join` without `subscriber`. `what`
 * names the entries of the listing in the error message, such as `batches`.
 */
export async function subscribersAsked(
  parts: AskedSubscribersParts,
  caller: Caller,
  { subscriber, join }: Asked,
  what: string,
): Promise<{ tokens: string[] | undefined; priceInCalls: number }> {
  const named = clientNamed(caller, subscriber, 'subscriber', `your own ${what} are`);
  if (named === undefined && join !== undefined)
    throw badParameter('subscriber', 'is missing: say whose join it is, as ?subscriber=token');
  if (named === undefined) return { tokens: undefined, priceInCalls: 0 };
  const { token, priceInCalls } = await parts.publicNames.tokenGiven(caller, named, () =>
    parts.subscribers.owners(),
  );
  return { tokens: token === undefined ? [] : await subscribersOf(parts, token, join), priceInCalls };
}

/**
 * Returns the entries of a listing as the caller may see them. If the subscriber of an entry is a join, `subscriber`
 * becomes the token of the join's client, and `join` becomes the join's name. A token that the caller may not see
 * becomes a public name.
 */
export async function withOwners<T extends { subscriber: string }>(
  { publicNames }: Pick<AskedSubscribersParts, 'publicNames'>,
  caller: Caller,
  entries: readonly T[],
): Promise<(T & { join?: string })[]> {
  const owners = entries.map(({ subscriber }) => ownerOf(subscriber));
  const nameOf = await publicNames.seenBy(caller, owners);
  return entries.map((entry, index) => {
    const join = readJoinToken(entry.subscriber)?.name;
    return { ...entry, subscriber: nameOf(owners[index] ?? ''), ...(join !== undefined && { join }) };
  });
}
