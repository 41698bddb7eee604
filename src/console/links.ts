import { type Html, html } from '../html.ts';
import { readJoinToken } from '../ids.ts';
import { pathWith } from './parts.ts';

/**
 * Returns a link to the page of the subscriber whose token is `queue`. If `queue` is the token of a join, the link
 * leads to the page of the join.
 */
export function linkToQueue(queue: string): Html {
  const join = readJoinToken(queue);
  const path = join
    ? pathWith(`/console/joins/${encodeURIComponent(join.name)}`, { client: join.client })
    : `/console/subscribers/${encodeURIComponent(queue)}`;
  return html`<a class="tag mono" href="${path}">${join ? `join ${join.name}` : queue}</a> `;
}
