import { type Html, html } from '../html.ts';
import { readJoinToken } from '../join_token.ts';
import { pathWith } from './parts.ts';

/**
 * Returns a link to the page of a subscriber. `queue` names it; for the queue of a join, the link leads to the join.
 */
export function linkToQueue(queue: string): Html {
  const join = readJoinToken(queue);
  const path = join
    ? pathWith(`/console/joins/${encodeURIComponent(join.name)}`, { client: join.client })
    : `/console/subscribers/${encodeURIComponent(queue)}`;
  return html`<a class="tag mono" href="${path}">${join ? `join ${join.name}` : queue}</a> `;
}
