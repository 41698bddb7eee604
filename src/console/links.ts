import { type Html, html } from '../html.ts';
import { joinToken, readJoinToken } from '../ids.ts';
import type { Delivery } from '../records/delivery.ts';
import { pathWith } from './parts.ts';

/** Returns the path of the page of a subscriber. */
export function subscriberPath(token: string): string {
  return `/console/subscribers/${encodeURIComponent(token)}`;
}

export type What = 'trigger' | 'join';

/** Returns the path of the page of a trigger or join. With `done`, the page says that an event was published. */
export function pathOf(what: What, name: string, client: string | undefined, done?: 'yes'): string {
  return pathWith(`/console/${what}s/${encodeURIComponent(name)}`, { client, done });
}

/** Returns a link to the page of the subscriber or join whose token is `queue`. */
export function linkToQueue(queue: string): Html {
  const join = readJoinToken(queue);
  const path = join ? pathOf('join', join.name, join.client) : subscriberPath(queue);
  return html`<a class="tag mono" href="${path}">${join ? `join ${join.name}` : queue}</a>`;
}

/**
 * Returns a link to the subscriber of a batch. If the subscriber is a join, returns the token of the join's client and
 * a link to the join.
 */
export function linkToSubscriber({ subscriber, join }: Pick<Delivery, 'subscriber' | 'join'>): Html {
  return join === undefined
    ? html`<a class="mono" href="${subscriberPath(subscriber)}">${subscriber}</a>`
    : html`<span class="mono">${subscriber}</span> ${linkToQueue(joinToken(join, subscriber))}`;
}
