/**
 * The value of the tag `topic` or `queue` in counters that collect the counts of removed topics or subscribers. It is
 * not the name of a topic or the token of a client: the API accepts no parenthesis in those, and `ROUTEMASTER_CLIENTS`
 * must not contain it.
 */
export const REMOVED = '(removed)';
